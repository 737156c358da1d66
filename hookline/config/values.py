"""The configuration of one process, as values."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from hookline.config.settings import SETTINGS
from hookline.config.urls import shown_url, sqlite_path
from hookline.model import CircuitPolicy, RetryPolicy, Strategy
from hookline.model.labels import EndpointLabels
from hookline.rules.alerts.conditions import Thresholds
from hookline.rules.alerts.wording import Channels
from hookline.rules.guard import Guard, Network


class Config(Struct, frozen=True, kw_only=True):
    """The configuration of one process. Durations are in seconds, and sizes are in bytes."""

    database_url: str
    outbox_urls: tuple[str, ...]  # databases of applications whose outboxes are relayed
    outbox_poll: float
    host: str
    port: int
    public_url: str | None
    trusted_proxies: tuple[Network, ...]
    connections_per_address: int
    portal_origins: tuple[str, ...]
    portal_name: str
    portal_color: str | None
    portal_logo: str | None
    rate_limit: float  # 0: no limit, here and in the next three fields
    rate_limit_portal: float
    rate_limit_application: float
    rate_limit_organization: float
    customer_endpoints: int  # 0: no limit
    access_log: str
    jwt_secrets: tuple[str, ...]  # the first secret signs tokens, and all of them verify tokens
    secret_keys: tuple[str, ...]  # the first key encrypts secrets, and all of them decrypt secrets
    allow_nets: tuple[Network, ...]
    allow_ports: tuple[int, ...]
    request_timeout: float
    connect_timeout: float
    retry_strategy: Strategy
    retry_base: float
    retry_factor: float
    retry_cap: float
    retry_max_attempts: int
    retry_max_age: float
    retry_schedule: tuple[float, ...]
    retry_after_cap: float
    circuit_threshold: int
    circuit_spread: float
    circuit_cooldown: float
    circuit_cooldown_cap: float
    concurrency: int
    lane_share: int  # slots that one lane may hold
    application_share: float  # fraction of the slots that one application may hold while no other needs any
    lease: float
    poll_interval: float
    shutdown_timeout: float
    shutdown_delay: float
    pause_dead_per_day: int
    disable_after: float
    response_body_limit: int
    max_payload: int
    max_batch: int
    retention_days: int
    dead_retention_days: int
    audit_retention_days: int
    idempotency_window: float
    pool_size: int
    auto_migrate: bool
    dns_servers: tuple[str, ...]
    ca_bundle: str | None
    log_format: str
    log_level: str
    alert_backlog: int
    alert_backlog_growing: float
    alert_latency: float
    alert_dead_letters: int
    alert_dead_letters_critical: int
    alert_dead_letters_growing: float
    alert_retries: float
    alert_endpoint: float
    alert_endpoint_for: float
    alert_circuits: bool
    alert_last_attempts: int
    alert_outbox_lag: float
    alert_leases: int
    alert_webhook_url: str | None
    alert_slack_url: str | None
    alert_email: tuple[str, ...]
    alert_email_from: tuple[str, ...]  # at most one address
    smtp_url: str | None
    log_attempts: str
    log_payloads: bool
    metrics_port: int  # 0: the port of the API
    metrics_token: str | None
    metrics_endpoints: EndpointLabels
    metrics_event_types: int

    @property
    def retry(self) -> RetryPolicy:
        return RetryPolicy(
            strategy=self.retry_strategy,
            base=self.retry_base,
            factor=self.retry_factor,
            cap=self.retry_cap,
            max_attempts=self.retry_max_attempts,
            max_age=self.retry_max_age,
            schedule=self.retry_schedule,
            retry_after_cap=self.retry_after_cap,
        )

    @property
    def circuit(self) -> CircuitPolicy:
        return CircuitPolicy(
            threshold=self.circuit_threshold,
            spread=self.circuit_spread,
            cooldown=self.circuit_cooldown,
            cooldown_cap=self.circuit_cooldown_cap,
        )

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(**{name: getattr(self, f"alert_{name}") for name in Thresholds.__struct_fields__})

    @property
    def channels(self) -> Channels:
        return Channels(
            webhook_url=self.alert_webhook_url,
            slack_url=self.alert_slack_url,
            emails=self.alert_email,
            email_from=next(iter((*self.alert_email_from, *self.alert_email)), ""),
            smtp_url=self.smtp_url,
            public_url=self.public_url,
        )

    @property
    def jwt_secret(self) -> str:
        """The secret that signs tokens, or an empty string if none is set."""
        return next(iter(self.jwt_secrets), "")

    @property
    def database_file(self) -> Path | None:
        """The path of the SQLite database, or None on PostgreSQL."""
        return sqlite_path(self.database_url)

    def guard(self) -> Guard:
        return Guard(self.allow_nets, self.allow_ports)

    def __repr__(self) -> str:
        values: dict[str, object] = {name: getattr(self, name) for name in self.__struct_fields__}
        values |= {setting.field: "…" for setting in SETTINGS if setting.secret}
        values["database_url"] = shown_url(self.database_url)
        values["outbox_urls"] = tuple(map(shown_url, self.outbox_urls))
        return f"Config({', '.join(f'{name}={value!r}' for name, value in values.items())})"
