"""The table of settings: parsing, errors and the documentation come from it."""

from __future__ import annotations

from msgspec import Struct

from hookline.config.parsers import (
    choice,
    color,
    durations,
    emails,
    existing_file,
    flag,
    hook_url,
    host_name,
    integer,
    jwt_secrets,
    metrics_token,
    networks,
    number,
    or_off,
    origins,
    part,
    percentage,
    ports,
    proxies,
    secret_keys,
    servers,
    share,
    site,
    smtp_url,
    title,
)
from hookline.config.urls import database_url, outbox_urls
from hookline.model import Strategy
from hookline.model.labels import EndpointLabels
from hookline.rules.checks.message import DAY, LARGEST_PAYLOAD, MAX_PAYLOAD, MAX_SCHEDULE, POLICY_BOUNDS
from hookline.rules.units import Parser, duration, size, volume

PREFIX = "HOOKLINE_"


class Setting(Struct, frozen=True):
    field: str  # of `Config`
    parse: Parser
    default: str  # as one would write it; empty: not set
    help: str
    name: str = ""  # of the variable, without the prefix, where it is not the field's
    secret: bool = False  # its value is in no error

    @property
    def variable(self) -> str:
        return PREFIX + (self.name or self.field.upper())


def _policy_duration(field: str) -> Parser:
    return duration(*POLICY_BOUNDS[field])


_policy_durations = durations(*POLICY_BOUNDS["schedule"], MAX_SCHEDULE)
_strategy_name = choice(*Strategy)


def strategy(text: str) -> Strategy:
    return Strategy(_strategy_name(text))


_count = integer(1, 10**9)
_rate = number(0, 1_000_000)
_endpoint_labels = choice(*EndpointLabels)


def endpoint_labels(text: str) -> EndpointLabels:
    return EndpointLabels(_endpoint_labels(text))


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "database_url",
        database_url,
        "sqlite:///hookline.db",
        "The database of Hookline: `sqlite:///file.db` or `postgresql://user:password@host/database`.",
        secret=True,
    ),
    Setting(
        "outbox_urls",
        outbox_urls,
        "",
        "Databases of applications whose outboxes Hookline relays: `sqlite:////srv/shop/shop.db` or `postgresql://...`.",
        secret=True,
    ),
    Setting(
        "outbox_poll",
        duration(0.01, 1),
        "40ms",
        "How often the relay polls the outbox of a PostgreSQL database, besides notifications; at most 1s.",
    ),
    Setting("host", host_name, "127.0.0.1", "Address that the HTTP server listens on."),
    Setting("port", integer(1, 65535), "8071", "Port that the HTTP server listens on."),
    Setting(
        "public_url",
        site,
        "",
        "The URL of this server for browsers, without a path. Links need it, unless the server listens on loopback.",
    ),
    Setting(
        "trusted_proxies",
        proxies,
        "",
        "Your reverse proxies, as networks separated by commas. Hookline believes their `X-Forwarded-For` and "
        "`X-Forwarded-Proto`, and does not limit their connections.",
    ),
    Setting(
        "connections_per_address",
        integer(1, 1_000_000),
        "1024",
        "Connections to the HTTP server from one address, or from one IPv6 network of 64 bits. Beyond that, the "
        "connection that has been idle longest is closed.",
    ),
    Setting(
        "portal_origins",
        origins,
        "",
        "Sites that may show the portal in a frame, and whose scripts may call the API (CORS) with an "
        "application's token, separated by commas: `https://portal.example.com`.",
    ),
    Setting("portal_name", title(60), "Hookline", "Name of the portal."),
    Setting(
        "portal_color",
        color,
        "",
        "Colour of the portal's links and buttons: `#1a73e8`. Hookline adjusts it in the light or dark theme if "
        "the contrast is too low.",
    ),
    Setting("portal_logo", existing_file, "", "Logo of the portal: a PNG, SVG, JPEG or WebP file of at most 256 KiB."),
    Setting("rate_limit", _rate, "20000", "Requests a second from one token or API key to one process; 0: no limit."),
    Setting(
        "rate_limit_portal",
        _rate,
        "100",
        "Requests a second from one portal link, with its token and in its pages, to one process; 0: no limit.",
    ),
    Setting(
        "rate_limit_application",
        _rate,
        "5000",
        "Requests a second from all tokens, API keys and portal links of one application to one process; 0: no "
        "limit. Those of the organization do not count.",
    ),
    Setting(
        "rate_limit_organization",
        _rate,
        "50000",
        "Requests a second from one organization to one process; 0: no limit.",
    ),
    Setting(
        "customer_endpoints",
        integer(0, 1_000_000),
        "100",
        "Endpoints that an application's own tokens, API keys and portal links may create; 0: no limit. Those of "
        "the organization are not limited.",
    ),
    Setting(
        "access_log", choice("off", "debug", "info"), "debug", "Log level of each request: `debug`, `info` or `off`."
    ),
    Setting(
        "jwt_secrets",
        jwt_secrets,
        "",
        "Secrets of API tokens, at least 32 characters each, separated by commas: the first one signs, all of "
        "them verify. Required on PostgreSQL; generated on the first start on SQLite.",
        name="JWT_SECRET",
        secret=True,
    ),
    Setting(
        "secret_keys",
        secret_keys,
        "",
        "Keys that encrypt secrets in the database, separated by commas: the first one encrypts, all of them "
        "decrypt; `hookline reseal` retires the others. Required on PostgreSQL; generated on the first start on "
        "SQLite.",
        name="SECRET_KEY",
        secret=True,
    ),
    Setting("allow_nets", networks, "", "Private networks that webhooks may go to, separated by commas."),
    Setting("allow_ports", ports, "", "Ports of databases, mail and other internal services that webhooks may go to."),
    Setting(
        "request_timeout", duration(0.1, 600), "30s", "Timeout of one attempt, from connect to the end of the body."
    ),
    Setting(
        "connect_timeout", duration(0.05, 600), "10s", "Timeout of connect and TLS; at most the timeout of the attempt."
    ),
    Setting(
        "retry_strategy", strategy, "full_jitter", "How waits are computed: `full_jitter`, `decorrelated` or `fixed`."
    ),
    Setting("retry_base", _policy_duration("base"), "1s", "Longest wait before the first retry (full jitter)."),
    Setting(
        "retry_factor", number(*POLICY_BOUNDS["factor"]), "3", "Factor by which the longest wait grows with each retry."
    ),
    Setting("retry_cap", _policy_duration("cap"), "6h", "Upper limit of the wait before a retry."),
    Setting("retry_max_attempts", integer(1, 100), "12", "Attempts of one delivery before it becomes a dead letter."),
    Setting(
        "retry_max_age", _policy_duration("max_age"), "24h", "Time budget of one delivery; then it is a dead letter."
    ),
    Setting(
        "retry_schedule", _policy_durations, "", "Waits of the `fixed` strategy: `5s,5m,30m,2h`; the last one repeats."
    ),
    Setting(
        "retry_after_cap", _policy_duration("retry_after_cap"), "1h", "Longest `Retry-After` that Hookline respects."
    ),
    Setting("circuit_threshold", integer(1, 1_000_000), "5", "Consecutive failures that open a circuit."),
    Setting("circuit_spread", duration(0, 3600), "1s", "Least time between the first and the last of these failures."),
    Setting(
        "circuit_cooldown",
        duration(0.1, DAY),
        "60s",
        "Time from opening to the first probe; doubles with each failed probe.",
    ),
    Setting("circuit_cooldown_cap", duration(0.1, 7 * DAY), "1h", "Longest time to the next probe."),
    Setting("concurrency", integer(1, 10_000), "512", "Requests in flight per worker process."),
    Setting(
        "lane_share",
        share,
        "0.25",
        "Part of these requests that one endpoint may hold: a fraction (`0.25`, `25%`) or a number (`64`).",
    ),
    Setting(
        "application_share",
        part,
        "0.75",
        "Part of these requests that one application may hold while no other needs any; several applications "
        "leave room for the next one. `1`: no limit.",
    ),
    Setting(
        "lease", duration(5, 3600), "60s", "How long a worker owns a delivery; at least 10s over the request timeout."
    ),
    Setting("poll_interval", duration(0.01, 60), "1s", "Longest sleep of a worker before it looks for work again."),
    Setting(
        "shutdown_timeout",
        duration(0, 3600),
        "25s",
        "Time to finish requests in flight after the signal to stop; the rest is released.",
    ),
    Setting(
        "shutdown_delay",
        duration(0, 600),
        "0s",
        "Time between the signal to stop and the end of the HTTP server. `/health/ready` answers 503 from the signal on.",
    ),
    Setting("pause_dead_per_day", _count, "100", "An endpoint with more dead letters than this in a day is paused."),
    Setting("disable_after", duration(60, 3650 * DAY), "5d", "An endpoint that only fails for this long is disabled."),
    Setting(
        "response_body_limit", size(0, 64 * 1024), "16KiB", "Bytes of a response body that are stored; at most 64KiB."
    ),
    Setting("max_payload", size(1, LARGEST_PAYLOAD), volume(MAX_PAYLOAD), "Largest payload that is accepted."),
    Setting("max_batch", size(64 * 1024, 1024**3), "16MiB", "Largest request body of a batch of messages."),
    Setting("retention_days", integer(1, 3650), "30", "Days that finished messages, deliveries and attempts are kept."),
    Setting("dead_retention_days", integer(1, 3650), "30", "Days that dead letters are kept."),
    Setting("audit_retention_days", integer(1, 3650), "365", "Days that the audit log is kept."),
    Setting("idempotency_window", duration(60, 30 * DAY), "24h", "How long an idempotency key is remembered."),
    Setting("pool_size", integer(2, 1000), "10", "PostgreSQL connections per process."),
    Setting("auto_migrate", flag, "true", "Whether `serve` and `worker` migrate the database when they start."),
    Setting("dns_servers", servers, "", "DNS resolvers to use instead of the system's: `9.9.9.9,[2620:fe::fe]:53`."),
    Setting("ca_bundle", existing_file, "", "PEM file of authorities to trust instead of the system's or certifi's."),
    Setting("log_format", choice("human", "json"), "human", "Format of the log: `human` or `json`."),
    Setting("log_level", choice("debug", "info", "warning", "error"), "info", "`debug`, `info`, `warning` or `error`."),
    Setting(
        "log_attempts",
        choice("all", "failures", "off"),
        "all",
        "Which attempts have a log line, at `info`: `all`, `failures` or `off`.",
    ),
    Setting(
        "log_payloads",
        flag,
        "false",
        "Whether these lines contain the beginning of request and response bodies, which may contain secrets.",
    ),
    Setting(
        "metrics_port",
        integer(0, 65535),
        "0",
        "Separate port for `/metrics` and `/health`, also for `worker` and `relay`; 0: `/metrics` is on the port of the API.",
    ),
    Setting(
        "metrics_token",
        metrics_token,
        "",
        "Token that a caller needs to read `/metrics`. Without it, a separate port is open to everybody, and the "
        "port of the API to this machine only.",
        secret=True,
    ),
    Setting(
        "metrics_endpoints",
        endpoint_labels,
        "off",
        "Whether `/metrics` names the 20 endpoints with the most failures: `off`, `top` (by id) or `hashed`.",
    ),
    Setting("metrics_event_types", integer(0, 1000), "50", "Event types that have their own label in `/metrics`."),
    Setting(
        "alert_backlog",
        or_off(_count),
        "1000",
        "An alert fires above this number of due, unsent deliveries. `off` turns this or any other alert off.",
    ),
    Setting(
        "alert_backlog_growing",
        or_off(duration(180, 3600)),
        "5m",
        "An alert fires when the number of due deliveries has grown for this long, and by more than 100.",
    ),
    Setting(
        "alert_latency",
        or_off(duration(0.01, DAY)),
        "60s",
        "An alert fires when 5 % of the first attempts in five minutes start later than this.",
    ),
    Setting("alert_dead_letters", or_off(_count), "10", "An alert fires above this number of unresolved dead letters."),
    Setting(
        "alert_dead_letters_critical",
        or_off(_count),
        "100",
        "A critical alert fires above this number of dead letters.",
    ),
    Setting(
        "alert_dead_letters_growing",
        or_off(number(1, 1000)),
        "3",
        "An alert fires when this many times as many deliveries as usual die in an hour, and more than 10.",
    ),
    Setting(
        "alert_retries", or_off(percentage), "50%", "An alert fires when this part of the retries in 15 minutes fails."
    ),
    Setting(
        "alert_endpoint",
        or_off(percentage),
        "50%",
        "An alert fires when more than this part of an endpoint's attempts fail during `HOOKLINE_ALERT_ENDPOINT_FOR`.",
    ),
    Setting(
        "alert_endpoint_for", duration(180, 2700), "15m", "How long an endpoint must fail before that alert fires."
    ),
    Setting("alert_circuits", flag, "on", "Whether an alert fires when a circuit opens."),
    Setting(
        "alert_last_attempts",
        or_off(_count),
        "20",
        "An alert fires when more deliveries than this reach their last attempt in 15 minutes.",
    ),
    Setting("alert_outbox_lag", or_off(duration(1, DAY)), "60s", "An alert fires when an outbox row waits longer."),
    Setting("alert_leases", or_off(_count), "10", "An alert fires when more leases than this expire in 15 minutes."),
    Setting(
        "alert_webhook_url",
        hook_url,
        "",
        "URL that gets alerts as signed webhooks (`hookline alerts secret`), with retries and dead letters.",
        secret=True,
    ),
    Setting(
        "alert_slack_url",
        hook_url,
        "",
        "URL of a Slack incoming webhook, or of a service with the same format, that gets alerts.",
        secret=True,
    ),
    Setting("alert_email", emails, "", "Recipients of alerts, separated by commas; needs `HOOKLINE_SMTP_URL`."),
    Setting("alert_email_from", emails, "", "Sender of these e-mails; by default the first of the recipients."),
    Setting(
        "smtp_url",
        smtp_url,
        "",
        "The mail server: `smtp://user:password@host:587` (STARTTLS) or `smtps://user:password@host`.",
        secret=True,
    ),
)
