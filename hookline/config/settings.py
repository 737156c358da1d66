"""The list of all settings, with their parsers, defaults and documentation."""

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
    member,
    metrics_token,
    networks,
    number,
    or_off,
    origins,
    percentage,
    ports,
    proxies,
    secret_keys,
    servers,
    share,
    site,
    slots_fraction,
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
    field: str  # the name of the field of `Config`
    parse: Parser
    default: str  # in the form that a user would write; empty: not set
    help: str
    name: str = ""  # the name of the variable without its prefix, if it differs from that of the field
    secret: bool = False  # errors and pages do not show the value

    @property
    def variable(self) -> str:
        return PREFIX + (self.name or self.field.upper())


def _policy_duration(field: str) -> Parser:
    return duration(*POLICY_BOUNDS[field])


_policy_durations = durations(*POLICY_BOUNDS["schedule"], MAX_SCHEDULE)

_RATE = number(0, 1_000_000)
_COUNT = integer(1, 10**9)


def _alert(name: str, parse: Parser, default: str, condition: str) -> Setting:
    return Setting(f"alert_{name}", or_off(parse), default, f"Alert when {condition}. `off`: never.")


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
        "Databases of applications whose outboxes are relayed, separated by commas: `sqlite:////srv/shop/shop.db` or "
        "`postgresql://...`.",
        secret=True,
    ),
    Setting(
        "outbox_poll",
        duration(0.01, 1),
        "40ms",
        "Time between two polls of an outbox in a PostgreSQL database; at most 1s. Notifications only shorten it.",
    ),
    Setting("host", host_name, "127.0.0.1", "Address on which the HTTP server listens."),
    Setting("port", integer(1, 65535), "8071", "Port on which the HTTP server listens."),
    Setting(
        "public_url",
        site,
        "",
        "The URL under which browsers reach this server, for links: a host of its own, without a path. Links need it unless "
        "the server listens on loopback.",
    ),
    Setting(
        "trusted_proxies",
        proxies,
        "",
        "Networks of your reverse proxies, separated by commas. The server trusts their `X-Forwarded-For` and "
        "`X-Forwarded-Proto`, and does not limit the number of their connections.",
    ),
    Setting(
        "connections_per_address",
        integer(1, 1_000_000),
        "1024",
        "Maximum number of connections to the HTTP server from one address (for IPv6: from one /64 network). Beyond that, the "
        "connection that has been idle longest is closed.",
    ),
    Setting(
        "portal_origins",
        origins,
        "",
        "Sites that may show the portal in a frame, and whose scripts may call the API (CORS) with an application's token, "
        "separated by commas: `https://portal.example.com`.",
    ),
    Setting("portal_name", title(60), "Hookline", "The name of the portal, shown at the top of its pages."),
    Setting(
        "portal_color",
        color,
        "",
        "Colour of the portal's links and buttons: `#1a73e8`. If it would be hard to read, the light theme uses a darker "
        "shade and the dark theme a lighter one.",
    ),
    Setting("portal_logo", existing_file, "", "Logo of the portal: a PNG, SVG, JPEG or WebP file of at most 256 KiB."),
    Setting("rate_limit", _RATE, "20000", "Requests per second of one token or API key to one process; 0: no limit."),
    Setting("rate_limit_portal", _RATE, "100", "Requests per second of one portal link to one process; 0: no limit."),
    Setting(
        "rate_limit_application",
        _RATE,
        "5000",
        "Requests per second that all tokens, API keys and portal links of one application may make to one process; 0: no "
        "limit. Requests with an organization's token or key do not count.",
    ),
    Setting(
        "rate_limit_organization",
        _RATE,
        "50000",
        "Requests per second that all tokens, API keys and portal links of one organization may make to one process; 0: no "
        "limit.",
    ),
    Setting(
        "customer_endpoints",
        integer(0, 1_000_000),
        "100",
        "Maximum number of endpoints of an application. At this number, its own tokens, API keys and portal links cannot "
        "create more; those of the organization can. 0: no limit.",
    ),
    Setting(
        "access_log",
        choice("off", "debug", "info"),
        "debug",
        "Level of the log line for each HTTP request: `debug`, `info` or `off`.",
    ),
    Setting(
        "jwt_secrets",
        jwt_secrets,
        "",
        "Secrets of API tokens, at least 32 characters each, separated by commas. The first secret signs tokens, and all of "
        "them verify tokens. Required on PostgreSQL; on SQLite the first start creates one.",
        name="JWT_SECRET",
        secret=True,
    ),
    Setting(
        "secret_keys",
        secret_keys,
        "",
        "Keys that encrypt secrets at rest, separated by commas. The first key encrypts, and all of them decrypt. After "
        "`hookline reseal` the other keys can be removed. Required on PostgreSQL; on SQLite the first start creates one.",
        name="SECRET_KEY",
        secret=True,
    ),
    Setting("allow_nets", networks, "", "Non-public networks to which webhooks may go, separated by commas."),
    Setting(
        "allow_ports",
        ports,
        "",
        "Ports of databases, mail and other services to which webhooks may go although they are blocked by default, separated "
        "by commas.",
    ),
    Setting("request_timeout", duration(0.1, 600), "30s", "Deadline of an attempt, including the whole response."),
    Setting("connect_timeout", duration(0.05, 600), "10s", "Deadline of connect and TLS; at most that of the attempt."),
    Setting(
        "retry_strategy", member(Strategy), "full_jitter", "How retries wait: `full_jitter`, `decorrelated`, `fixed`."
    ),
    Setting("retry_base", _policy_duration("base"), "1s", "Longest wait before the first retry; the wait is random."),
    Setting("retry_factor", number(*POLICY_BOUNDS["factor"]), "3", "Factor by which the wait grows with each retry."),
    Setting("retry_cap", _policy_duration("cap"), "6h", "Upper limit of the wait before a retry."),
    Setting("retry_max_attempts", integer(1, 100), "12", "Attempts of one delivery before it becomes a dead letter."),
    Setting(
        "retry_max_age",
        _policy_duration("max_age"),
        "24h",
        "Time budget: age at which a delivery becomes a dead letter.",
    ),
    Setting("retry_schedule", _policy_durations, "", "Waits of `fixed` retries: `5s,5m,30m,2h`; the last one repeats."),
    Setting("retry_after_cap", _policy_duration("retry_after_cap"), "1h", "Longest `Retry-After` that is honoured."),
    Setting("circuit_threshold", integer(1, 1_000_000), "5", "Failures in a row that open an endpoint's circuit."),
    Setting(
        "circuit_spread",
        duration(0, 3600),
        "1s",
        "Minimum time between the first and last failure that open a circuit.",
    ),
    Setting(
        "circuit_cooldown",
        duration(0.1, DAY),
        "60s",
        "Time from the opening of a circuit to the first probe. It doubles with each probe that fails.",
    ),
    Setting("circuit_cooldown_cap", duration(0.1, 7 * DAY), "1h", "Upper limit of the time between two probes."),
    Setting("concurrency", integer(1, 10_000), "512", "Slots: requests in flight per worker process."),
    Setting(
        "lane_share", share, "0.25", "Slots that one endpoint may hold: a fraction (`0.25`, `25%`) or a number (`64`)."
    ),
    Setting(
        "application_share",
        slots_fraction,
        "0.75",
        "Fraction of the slots that one application may hold while no other needs any. Applications that share the slots always "
        "leave some for the next one. `1`: no limit.",
    ),
    Setting(
        "lease", duration(5, 3600), "60s", "How long a claim is valid; at least 10s more than the request timeout."
    ),
    Setting("poll_interval", duration(0.01, 60), "1s", "Longest time that a worker sleeps before it checks for work."),
    Setting(
        "shutdown_timeout",
        duration(0, 3600),
        "25s",
        "Time to finish the requests in flight after the stop signal; the other deliveries are released.",
    ),
    Setting(
        "shutdown_delay",
        duration(0, 600),
        "0s",
        "Time between the stop signal and the end of the HTTP server. During it, `/health/ready` answers 503.",
    ),
    Setting(
        "pause_dead_per_day",
        integer(1, 10**9),
        "100",
        "An endpoint is paused when it has more dead letters than this in a day.",
    ),
    Setting(
        "disable_after",
        duration(60, 3650 * DAY),
        "5d",
        "An endpoint is disabled when all its deliveries have failed for this long.",
    ),
    Setting(
        "response_body_limit", size(0, 64 * 1024), "16KiB", "Bytes of a response body that are kept; at most 64KiB."
    ),
    Setting("max_payload", size(1, LARGEST_PAYLOAD), volume(MAX_PAYLOAD), "Maximum size of a payload."),
    Setting("max_batch", size(64 * 1024, 1024**3), "16MiB", "Maximum size of the request body of a batch."),
    Setting("retention_days", integer(1, 3650), "30", "Days to keep finished messages, deliveries and attempts."),
    Setting("dead_retention_days", integer(1, 3650), "30", "Days to keep dead letters."),
    Setting("audit_retention_days", integer(1, 3650), "365", "Days to keep entries of the audit log."),
    Setting("idempotency_window", duration(60, 30 * DAY), "24h", "How long an idempotency key is valid."),
    Setting("pool_size", integer(2, 1000), "10", "Size of the PostgreSQL connection pool of each process."),
    Setting("auto_migrate", flag, "true", "Whether `serve` and `worker` migrate the database when they start."),
    Setting("dns_servers", servers, "", "DNS servers to use instead of the system's: `9.9.9.9,[2620:fe::fe]:53`."),
    Setting("ca_bundle", existing_file, "", "PEM file of authorities to trust instead of the system's or certifi's."),
    Setting("log_format", choice("human", "json"), "human", "Format of the log: `human` or `json`."),
    Setting(
        "log_level",
        choice("debug", "info", "warning", "error"),
        "info",
        "Lowest level to log: `debug`, `info`, `warning` or `error`.",
    ),
    Setting(
        "log_attempts",
        choice("all", "failures", "off"),
        "all",
        "Attempts to log at `info`: `all`, `failures` or `off`.",
    ),
    Setting(
        "log_payloads",
        flag,
        "false",
        "Whether the log lines of attempts include the start of the payload and of the response. Both may contain secrets.",
    ),
    Setting(
        "metrics_port",
        integer(0, 65535),
        "0",
        "A separate port for `/metrics` and `/health`, also for `worker` and `relay`; 0: `/metrics` is on the API's port.",
    ),
    Setting(
        "metrics_token",
        metrics_token,
        "",
        "Token that is required to read `/metrics`. Without a token, everybody can read them on a separate port, and only this "
        "machine can read them on the API's port.",
        secret=True,
    ),
    Setting(
        "metrics_endpoints",
        member(EndpointLabels),
        "off",
        "Whether `/metrics` names the 20 endpoints with the most failures: `off`, `top` (by id) or `hashed`.",
    ),
    Setting(
        "metrics_event_types",
        integer(0, 1000),
        "50",
        "How many event types `/metrics` shows separately; the others are counted as `other`.",
    ),
    _alert("backlog", _COUNT, "1000", "more deliveries than this are due and not sent"),
    _alert("backlog_growing", duration(180, 3600), "5m", "the backlog has grown for this long, and by more than 100"),
    _alert("latency", duration(0.01, DAY), "60s", "5 % of the first attempts in five minutes start later than this"),
    _alert("dead_letters", _COUNT, "10", "more dead letters than this are unresolved"),
    _alert("dead_letters_critical", _COUNT, "100", "more dead letters than this are unresolved (a critical alert)"),
    _alert(
        "dead_letters_growing",
        number(1, 1000),
        "3",
        "an hour has this many times the usual number of dead letters, and more than 10",
    ),
    _alert("retries", percentage, "50%", "more than this share of the retries in 15 minutes failed"),
    _alert(
        "endpoint",
        percentage,
        "50%",
        "more than this share of an endpoint's attempts failed in `HOOKLINE_ALERT_ENDPOINT_FOR`",
    ),
    Setting("alert_endpoint_for", duration(180, 2700), "15m", "Time over which `HOOKLINE_ALERT_ENDPOINT` is measured."),
    Setting("alert_circuits", flag, "on", "Whether to alert when a circuit opens."),
    _alert("last_attempts", _COUNT, "20", "more deliveries than this reached their last attempt in 15 minutes"),
    _alert("outbox_lag", duration(1, DAY), "60s", "an outbox row waits for longer than this"),
    _alert("leases", _COUNT, "10", "more leases than this expired in 15 minutes"),
    Setting(
        "alert_webhook_url",
        hook_url,
        "",
        "URL to which alerts are delivered as webhooks: signed (`hookline alerts secret`), with retries and dead letters.",
        secret=True,
    ),
    Setting("alert_slack_url", hook_url, "", "Slack incoming webhook that alerts are delivered to.", secret=True),
    Setting("alert_email", emails, "", "Addresses that get alerts, separated by commas; needs `HOOKLINE_SMTP_URL`."),
    Setting("alert_email_from", emails, "", "Sender of alert mails; the default is the first address that gets them."),
    Setting(
        "smtp_url",
        smtp_url,
        "",
        "The mail server for alerts: `smtp://user:password@host:587` (STARTTLS) or `smtps://user:password@host`.",
        secret=True,
    ),
)
