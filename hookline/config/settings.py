"""All settings. Each field of `Config` is one setting, with its parser, its default and its documentation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from hookline.config import parsers, urls
from hookline.model.measures import EndpointLabels
from hookline.model.policy import CircuitPolicy, RetryPolicy, Strategy
from hookline.rules.alerts.conditions import Thresholds
from hookline.rules.alerts.wording import Channels
from hookline.rules.checks.message import DAY, LARGEST_PAYLOAD, MAX_PAYLOAD, MAX_SCHEDULE, POLICY_BOUNDS
from hookline.rules.claim.budgets import LARGE
from hookline.rules.guard import Guard, Network
from hookline.rules.units import Parser, duration, size, volume

PREFIX = "HOOKLINE_"

S = TypeVar("S", bound=Struct)

_RATE = parsers.number(0, 1_000_000)
_COUNT = parsers.integer(1, 10**9)


class Setting(Struct, frozen=True):
    field: str  # the name of the field of `Config`
    parse: Parser
    default: str  # as a user would write it; empty if there is no default
    help: str
    name: str = ""  # the variable without HOOKLINE_, if it differs from the field's name
    secret: bool = False  # errors and pages do not show the value

    @property
    def variable(self) -> str:
        return PREFIX + (self.name or self.field.upper())


def setting(parse: Parser, default: str, text: str, **more: Any) -> Any:
    """Declare a field of `Config`. `text` is its documentation, and `more` are further fields of its `Setting`."""
    return dataclasses.field(metadata={"parse": parse, "default": default, "help": text, **more})


def optional(parse: Parser, text: str, **more: Any) -> Any:
    """Declare a field of `Config` that is None if the variable is not set."""
    return setting(lambda given: parse(given) if given else None, "", text, **more)


def _alert(parse: Parser, default: str, condition: str) -> Any:
    return setting(parsers.or_off(parse), default, f"Alert when {condition}. `off`: never.")


def _policy(field: str) -> Parser:
    return duration(*POLICY_BOUNDS[field])


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Config:
    """The configuration of one process. Durations are in seconds, and sizes are in bytes."""

    database_url: str = setting(
        urls.database_url,
        "sqlite:///hookline.db",
        "The database of Hookline: `sqlite:///file.db` or `postgresql://user:password@host/database`.",
        secret=True,
    )
    outbox_urls: tuple[str, ...] = setting(
        urls.outbox_urls,
        "",
        "Databases of applications whose outboxes are relayed, separated by commas: `sqlite:////srv/shop/shop.db` or "
        "`postgresql://...`.",
        secret=True,
    )
    outbox_poll: float = setting(
        duration(0.01, 1),
        "40ms",
        "Time between two polls of an outbox in a PostgreSQL database; at most 1s. A notification starts a poll earlier.",
    )
    host: str = setting(parsers.host_name, "127.0.0.1", "Address on which the HTTP server listens.")
    port: int = setting(parsers.integer(1, 65535), "8071", "Port on which the HTTP server listens.")
    public_url: str | None = optional(
        parsers.site,
        "The URL under which browsers reach this server, for links: a host of its own, without a path. Links need it unless "
        "the server listens on loopback.",
    )
    trusted_proxies: tuple[Network, ...] = setting(
        parsers.proxies,
        "",
        "Networks of your reverse proxies, separated by commas. The server trusts their `X-Forwarded-For` and "
        "`X-Forwarded-Proto`, and does not limit the number of their connections.",
    )
    connections_per_address: int = setting(
        parsers.integer(1, 1_000_000),
        "1024",
        "Maximum number of connections to the HTTP server from one address (for IPv6: from one /64 network). Beyond that, the "
        "connection that has been idle longest is closed.",
    )
    portal_origins: tuple[str, ...] = setting(
        parsers.origins,
        "",
        "Sites that may show the portal in a frame, and whose scripts may call the API (CORS) with an application's token, "
        "separated by commas: `https://portal.example.com`.",
    )
    portal_name: str = setting(parsers.title(60), "Hookline", "The name of the portal, shown at the top of its pages.")
    portal_color: str | None = optional(
        parsers.color,
        "Colour of the portal's links and buttons: `#1a73e8`. If it would be hard to read, the light theme uses a darker "
        "shade and the dark theme a lighter one.",
    )
    portal_logo: str | None = optional(
        parsers.existing_file, "Logo of the portal: a PNG, SVG, JPEG or WebP file of at most 256 KiB."
    )
    rate_limit: float = setting(
        _RATE, "20000", "Requests per second of one token or API key to one process; 0: no limit."
    )
    rate_limit_portal: float = setting(
        _RATE, "100", "Requests per second of one portal link to one process; 0: no limit."
    )
    rate_limit_application: float = setting(
        _RATE,
        "5000",
        "Requests per second that all tokens, API keys and portal links of one application may make to one process; 0: no "
        "limit. Requests with an organization's token or key do not count.",
    )
    rate_limit_organization: float = setting(
        _RATE,
        "50000",
        "Requests per second that all tokens, API keys and portal links of one organization may make to one process; 0: no "
        "limit.",
    )
    customer_endpoints: int = setting(
        parsers.integer(0, 1_000_000),
        "100",
        "Maximum number of endpoints of an application. At this number, the application's own tokens, API keys and portal "
        "links cannot create more. Tokens and keys of the organization can. 0: no limit.",
    )
    access_log: str = setting(
        parsers.choice("off", "debug", "info"),
        "debug",
        "Level of the log line for each HTTP request: `debug`, `info` or `off`.",
    )
    jwt_secrets: tuple[str, ...] = setting(
        parsers.jwt_secrets,
        "",
        "Secrets of API tokens, at least 32 characters each, separated by commas. The first secret signs tokens, and all of "
        "them verify tokens. Required on PostgreSQL; on SQLite the first start creates one.",
        name="JWT_SECRET",
        secret=True,
    )
    secret_keys: tuple[str, ...] = setting(
        parsers.secret_keys,
        "",
        "Keys that encrypt secrets at rest, separated by commas. The first key encrypts, and all of them decrypt. After "
        "`hookline reseal` the other keys can be removed. Required on PostgreSQL; on SQLite the first start creates one.",
        name="SECRET_KEY",
        secret=True,
    )
    allow_nets: tuple[Network, ...] = setting(
        parsers.networks, "", "Non-public networks to which webhooks may go, separated by commas."
    )
    allow_ports: tuple[int, ...] = setting(
        parsers.ports,
        "",
        "Ports of databases, mail and other services to which webhooks may go although they are blocked by default, separated "
        "by commas.",
    )
    request_timeout: float = setting(duration(0.1, 600), "30s", "Deadline of an attempt, including the whole response.")
    connect_timeout: float = setting(
        duration(0.05, 600), "10s", "Deadline of connecting, with TLS; at most `HOOKLINE_REQUEST_TIMEOUT`."
    )
    retry_strategy: Strategy = setting(  # noqa: RUF009 - declares a field
        parsers.member(Strategy), "full_jitter", "Backoff of retries: `full_jitter`, `decorrelated`, `fixed`."
    )
    retry_base: float = setting(_policy("base"), "1s", "Longest wait before the first retry; the wait is random.")
    retry_factor: float = setting(
        parsers.number(*POLICY_BOUNDS["factor"]), "3", "Factor by which the wait grows with each retry."
    )
    retry_cap: float = setting(_policy("cap"), "6h", "Upper limit of the wait before a retry.")
    retry_max_attempts: int = setting(
        parsers.integer(1, 100), "12", "Attempts of one delivery before it becomes a dead letter."
    )
    retry_max_age: float = setting(
        _policy("max_age"), "24h", "Time budget: age at which a delivery becomes a dead letter."
    )
    retry_schedule: tuple[float, ...] = setting(
        parsers.durations(*POLICY_BOUNDS["schedule"], MAX_SCHEDULE),
        "",
        "Waits of `fixed` retries: `5s,5m,30m,2h`; the last one repeats.",
    )
    retry_after_cap: float = setting(
        _policy("retry_after_cap"),
        "1h",
        "Longest wait that a `Retry-After` can cause; a longer one is shortened to this.",
    )
    circuit_threshold: int = setting(
        parsers.integer(1, 1_000_000), "5", "Failures in a row that open an endpoint's circuit."
    )
    circuit_spread: float = setting(
        duration(0, 3600), "1s", "Minimum time between the first and last failure that open a circuit."
    )
    circuit_cooldown: float = setting(
        duration(0.1, DAY),
        "60s",
        "Time from the opening of a circuit to the first probe. It doubles with each probe that fails.",
    )
    circuit_cooldown_cap: float = setting(duration(0.1, 7 * DAY), "1h", "Upper limit of the time between two probes.")
    concurrency: int = setting(
        parsers.integer(1, 10_000), "1024", "Slots: requests in flight per worker process, to endpoints that answer."
    )
    silent_concurrency: int = setting(
        parsers.integer(1, 50_000),
        "4096",
        "Further slots per worker process, for endpoints that have not answered yet, or that let requests wait for more than a "
        "second. Fewer if the limit of open files is low.",
    )
    concurrency_bytes: int = setting(
        size(LARGE, 1 << 40),
        "64MiB",
        "Bytes of payloads in flight per worker process, both in the slots of `HOOKLINE_CONCURRENCY` and in those of "
        "`HOOKLINE_SILENT_CONCURRENCY`. Payloads of up to 16KiB do not count.",
    )
    # The parser returns a number or a fraction. `parse` replaces a fraction by a number of slots.
    lane_share: int = setting(
        parsers.share, "0.25", "Slots that one endpoint may hold: a fraction (`0.25`, `25%`) or a number (`64`)."
    )
    application_share: float = setting(
        parsers.slots_fraction,
        "0.75",
        "Fraction of the slots that one application may hold while no other application needs slots. Applications that share "
        "the slots always leave some for one more application. `1`: no limit.",
    )
    lease: float = setting(
        duration(5, 3600),
        "60s",
        "How long a claimed delivery belongs to its worker; at least 10s more than `HOOKLINE_REQUEST_TIMEOUT`.",
    )
    poll_interval: float = setting(
        duration(0.01, 60), "1s", "Longest time that a worker sleeps before it checks for work."
    )
    shutdown_timeout: float = setting(
        duration(0, 3600),
        "25s",
        "Time that a worker has after the stop signal to finish its requests in flight. Shortly before the end of this time, it "
        "cuts off those that remain, and another worker sends them again.",
    )
    shutdown_delay: float = setting(
        duration(0, 600),
        "0s",
        "Time between the stop signal and the end of the HTTP server. During it, `/health/ready` answers 503.",
    )
    pause_dead_per_day: int = setting(
        parsers.integer(1, 10**9), "100", "An endpoint is paused when it has more dead letters than this in a day."
    )
    disable_after: float = setting(
        duration(60, 3650 * DAY), "5d", "An endpoint is disabled when all its deliveries have failed for this long."
    )
    response_body_limit: int = setting(
        size(0, 64 * 1024), "16KiB", "Bytes of a response body that are kept; at most 64KiB."
    )
    max_payload: int = setting(size(1, LARGEST_PAYLOAD), volume(MAX_PAYLOAD), "Maximum size of a payload.")
    max_batch: int = setting(size(64 * 1024, 1024**3), "16MiB", "Maximum size of the request body of a batch.")
    retention_days: int = setting(
        parsers.integer(1, 3650), "30", "Days to keep finished messages, deliveries and attempts."
    )
    dead_retention_days: int = setting(parsers.integer(1, 3650), "30", "Days to keep dead letters.")
    audit_retention_days: int = setting(parsers.integer(1, 3650), "365", "Days to keep entries of the audit log.")
    idempotency_window: float = setting(duration(60, 30 * DAY), "24h", "How long an idempotency key is valid.")
    pool_size: int = setting(parsers.integer(2, 1000), "10", "Size of the PostgreSQL connection pool of each process.")
    database_timeout: float = setting(
        duration(1, 60),
        "4s",
        "Maximum time that a request to the API or a page waits for the database. After that, it gets 503.",
    )
    auto_migrate: bool = setting(
        parsers.flag, "true", "Whether `serve` and `worker` migrate the database when they start."
    )
    dns_servers: tuple[str, ...] = setting(
        parsers.servers, "", "DNS servers to use instead of the system's: `9.9.9.9,[2620:fe::fe]:53`."
    )
    ca_bundle: str | None = optional(
        parsers.existing_file, "PEM file of certificate authorities to trust instead of the system's or certifi's."
    )
    log_format: str = setting(parsers.choice("human", "json"), "human", "Format of the log: `human` or `json`.")
    log_level: str = setting(
        parsers.choice("debug", "info", "warning", "error"),
        "info",
        "Lowest level to log: `debug`, `info`, `warning` or `error`.",
    )
    log_attempts: str = setting(
        parsers.choice("all", "failures", "off"), "all", "Attempts to log at `info`: `all`, `failures` or `off`."
    )
    log_payloads: bool = setting(
        parsers.flag,
        "false",
        "Whether the log lines of attempts include the start of the payload and of the response. Both may contain secrets.",
    )
    metrics_port: int = setting(
        parsers.integer(0, 65535),
        "0",
        "A separate port for `/metrics` and `/health`, also for `worker` and `relay`; 0: `/metrics` is on the API's port.",
    )
    metrics_token: str | None = optional(
        parsers.metrics_token,
        "Token that is required to read `/metrics`. Without a token, everybody can read the metrics on a separate port, "
        "and only this machine can read them on the API's port.",
        secret=True,
    )
    metrics_endpoints: EndpointLabels = setting(  # noqa: RUF009 - declares a field
        parsers.member(EndpointLabels),
        "off",
        "Whether `/metrics` names the 20 endpoints with the most failures: `off`, `top` (by id) or `hashed`.",
    )
    metrics_event_types: int = setting(
        parsers.integer(0, 1000),
        "50",
        "How many event types `/metrics` shows separately; the others are counted as `other`.",
    )
    alert_backlog: int = _alert(_COUNT, "1000", "more deliveries than this are due and not sent")
    alert_backlog_growing: float = _alert(
        duration(180, 3600), "5m", "the backlog has grown for this long, and by more than 100 deliveries"
    )
    alert_latency: float = _alert(
        duration(0.01, DAY), "60s", "5 % of the first attempts in five minutes start more than this after they were due"
    )
    alert_dead_letters: int = _alert(_COUNT, "10", "more dead letters than this are unresolved")
    alert_dead_letters_critical: int = _alert(
        _COUNT, "100", "more dead letters than this are unresolved (a critical alert)"
    )
    alert_dead_letters_growing: float = _alert(
        parsers.number(1, 1000), "3", "an hour has this many times the usual number of dead letters, and more than 10"
    )
    alert_retries: float = _alert(parsers.percentage, "50%", "more than this share of the retries in 15 minutes failed")
    alert_endpoint: float = _alert(
        parsers.percentage,
        "50%",
        "more than this share of an endpoint's attempts failed within `HOOKLINE_ALERT_ENDPOINT_FOR`",
    )
    alert_endpoint_for: float = setting(
        duration(180, 2700), "15m", "Time over which `HOOKLINE_ALERT_ENDPOINT` is measured."
    )
    alert_circuits: bool = setting(parsers.flag, "on", "Whether to alert when a circuit opens.")
    alert_last_attempts: int = _alert(
        _COUNT, "20", "more deliveries than this reached their last attempt in 15 minutes"
    )
    alert_outbox_lag: float = _alert(duration(1, DAY), "60s", "an outbox row waits for longer than this")
    alert_leases: int = _alert(_COUNT, "10", "more leases than this expired in 15 minutes")
    alert_webhook_url: str | None = optional(
        parsers.hook_url,
        "URL to which alerts are delivered as webhooks: signed (`hookline alerts secret`), with retries and dead letters.",
        secret=True,
    )
    alert_slack_url: str | None = optional(
        parsers.hook_url, "Slack incoming webhook that alerts are delivered to.", secret=True
    )
    alert_email: tuple[str, ...] = setting(
        parsers.emails, "", "Addresses that get alerts, separated by commas; needs `HOOKLINE_SMTP_URL`."
    )
    alert_email_from: tuple[str, ...] = setting(
        parsers.emails, "", "Sender of alert mails; the default is the first address that gets them."
    )
    smtp_url: str | None = optional(
        parsers.smtp_url,
        "The mail server for alerts: `smtp://user:password@host:587` (STARTTLS) or `smtps://user:password@host`.",
        secret=True,
    )

    def fill(self, kind: type[S], prefix: str = "", *, defaults: Sequence[str] = (), **given: Any) -> S:
        """Make a struct. Each field gets the value of the setting `prefix + name`, unless its value is given. The
        fields named in `defaults` have no setting and keep the struct's default."""
        names = [name for name in kind.__struct_fields__ if name not in given and name not in defaults]
        return kind(**given, **{name: getattr(self, prefix + name.removeprefix(prefix)) for name in names})

    @property
    def retry(self) -> RetryPolicy:
        return self.fill(RetryPolicy, "retry_")

    @property
    def circuit(self) -> CircuitPolicy:
        recovery = [name for name in CircuitPolicy.__struct_fields__ if name.startswith("recovery_")]
        return self.fill(CircuitPolicy, "circuit_", defaults=recovery)

    @property
    def thresholds(self) -> Thresholds:
        return self.fill(Thresholds, "alert_")

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
        return urls.sqlite_path(self.database_url)

    @property
    def guard(self) -> Guard:
        return Guard(self.allow_nets, self.allow_ports)

    def __repr__(self) -> str:
        values = {each.field: "…" if each.secret else getattr(self, each.field) for each in SETTINGS}
        values["database_url"] = urls.shown_url(self.database_url)
        values["outbox_urls"] = tuple(map(urls.shown_url, self.outbox_urls))
        return f"Config({', '.join(f'{name}={value!r}' for name, value in values.items())})"


SETTINGS = tuple(Setting(each.name, **each.metadata) for each in dataclasses.fields(Config))
