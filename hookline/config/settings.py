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


_endpoint_labels = choice(*EndpointLabels)


def endpoint_labels(text: str) -> EndpointLabels:
    return EndpointLabels(_endpoint_labels(text))


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "database_url",
        database_url,
        "sqlite:///hookline.db",
        "Where everything is kept: `sqlite:///file.db` or `postgresql://user:password@host/database`.",
        secret=True,
    ),
    Setting(
        "outbox_urls",
        outbox_urls,
        "",
        "Databases of applications whose outboxes are relayed too, by commas: `sqlite:////srv/shop/shop.db` or `postgresql://...`.",
        secret=True,
    ),
    Setting(
        "outbox_poll",
        duration(0.01, 1),
        "40ms",
        "How often the outbox of a PostgreSQL database is looked at, woken or not; at most 1s.",
    ),
    Setting("host", host_name, "127.0.0.1", "Address that the HTTP server listens on."),
    Setting("port", integer(1, 65535), "8071", "Port that the HTTP server listens on."),
    Setting(
        "public_url",
        site,
        "",
        "Where browsers reach this server, a host of its own, for links; needed for them unless it listens on loopback. No path.",
    ),
    Setting(
        "trusted_proxies",
        proxies,
        "",
        "Your reverse proxies, as networks separated by commas. Their `X-Forwarded-For` and `X-Forwarded-Proto` are believed, "
        "and the number of their connections is not limited.",
    ),
    Setting(
        "connections_per_address",
        integer(1, 1_000_000),
        "1024",
        "Connections to the HTTP server from one address (of IPv6: a network of 64 bits). Beyond that, the one idle longest is "
        "closed.",
    ),
    Setting(
        "portal_origins",
        origins,
        "",
        "Sites that may show the portal in a frame, and whose scripts may call the API (CORS) with an application's token: "
        "`https://portal.example.com`, by commas.",
    ),
    Setting("portal_name", title(60), "Hookline", "What the portal is called."),
    Setting(
        "portal_color",
        color,
        "",
        "Colour of its links and buttons: `#1a73e8`. Darker in the light theme and lighter in the dark one where it could not "
        "be read.",
    ),
    Setting(
        "portal_logo", existing_file, "", "A picture for its top: a PNG, SVG, JPEG or WebP file of at most 256 KiB."
    ),
    Setting(
        "rate_limit",
        number(0, 1_000_000),
        "20000",
        "Requests a second that one token or API key may make of one process; 0: no limit.",
    ),
    Setting(
        "rate_limit_portal",
        number(0, 1_000_000),
        "100",
        "Likewise, that one portal link may make, with its token and in its pages.",
    ),
    Setting(
        "rate_limit_application",
        number(0, 1_000_000),
        "5000",
        "Likewise, of all tokens, API keys and portal links of one application together. Those of the organization do not count.",
    ),
    Setting(
        "rate_limit_organization", number(0, 1_000_000), "50000", "Likewise, of all of an organization's together."
    ),
    Setting(
        "customer_endpoints",
        integer(0, 1_000_000),
        "100",
        "Endpoints that an application may have before its own tokens, API keys and portal links can make no more; 0: no limit. "
        "Those of the organization are not limited.",
    ),
    Setting(
        "access_log",
        choice("off", "debug", "info"),
        "debug",
        "Level of the line that is logged for each request: `debug`, `info` or `off`.",
    ),
    Setting(
        "jwt_secrets",
        jwt_secrets,
        "",
        "Secrets of API tokens, at least 32 characters each, separated by commas: the first one signs, all of them verify. "
        "Required on PostgreSQL; made on the first start on SQLite.",
        name="JWT_SECRET",
        secret=True,
    ),
    Setting(
        "secret_keys",
        secret_keys,
        "",
        "Keys that encrypt secrets at rest, separated by commas: the first one seals, all of them open; `hookline reseal` "
        "retires the others. Required on PostgreSQL; made on the first start on SQLite.",
        name="SECRET_KEY",
        secret=True,
    ),
    Setting("allow_nets", networks, "", "Networks that webhooks may go to although they are not public, by commas."),
    Setting(
        "allow_ports",
        ports,
        "",
        "Ports that webhooks may go to although they are those of databases, mail and other services, by commas.",
    ),
    Setting(
        "request_timeout", duration(0.1, 600), "30s", "Deadline of one attempt, from connect to the end of the body."
    ),
    Setting(
        "connect_timeout", duration(0.05, 600), "10s", "Deadline of connect and TLS; never longer than the attempt's."
    ),
    Setting("retry_strategy", strategy, "full_jitter", "`full_jitter`, `decorrelated` or `fixed`."),
    Setting("retry_base", _policy_duration("base"), "1s", "The first retry waits between 0 and this (full jitter)."),
    Setting(
        "retry_factor", number(*POLICY_BOUNDS["factor"]), "3", "Each further retry may wait this many times longer ..."
    ),
    Setting("retry_cap", _policy_duration("cap"), "6h", "... up to this."),
    Setting("retry_max_attempts", integer(1, 100), "12", "Attempts of one delivery before it becomes a dead letter."),
    Setting("retry_max_age", _policy_duration("max_age"), "24h", "Time budget of one delivery, likewise."),
    Setting(
        "retry_schedule", _policy_durations, "", "Delays of the `fixed` strategy: `5s,5m,30m,2h`; the last one repeats."
    ),
    Setting(
        "retry_after_cap", _policy_duration("retry_after_cap"), "1h", "The longest `Retry-After` that is honoured."
    ),
    Setting("circuit_threshold", integer(1, 1_000_000), "5", "Failures in a row that open an endpoint's circuit ..."),
    Setting("circuit_spread", duration(0, 3600), "1s", "... when first and last are at least this far apart."),
    Setting("circuit_cooldown", duration(0.1, DAY), "60s", "To the first probe; doubles with each one that fails ..."),
    Setting("circuit_cooldown_cap", duration(0.1, 7 * DAY), "1h", "... up to this."),
    Setting("concurrency", integer(1, 10_000), "512", "Requests in flight per worker process."),
    Setting(
        "lane_share",
        share,
        "0.25",
        "How much of them one endpoint may hold: a part (`0.25`, `25%`) or a number (`64`).",
    ),
    Setting(
        "application_share",
        part,
        "0.75",
        "How much of them one application may hold while no other wants any; several leave room for the next. `1`: no limit.",
    ),
    Setting(
        "lease", duration(5, 3600), "60s", "How long a worker owns a claim; at least 10s more than the request timeout."
    ),
    Setting("poll_interval", duration(0.01, 60), "1s", "The longest a worker sleeps without looking for work."),
    Setting(
        "shutdown_timeout",
        duration(0, 3600),
        "25s",
        "Time to finish what is in flight when stopped; the rest is released.",
    ),
    Setting(
        "shutdown_delay",
        duration(0, 600),
        "0s",
        "Time between the signal to stop, from which on `/health/ready` says no, and the end of the HTTP server.",
    ),
    Setting(
        "pause_dead_per_day", integer(1, 10**9), "100", "More dead letters than this in a day pause their endpoint."
    ),
    Setting(
        "disable_after", duration(60, 3650 * DAY), "5d", "An endpoint that fails steadily for this long is disabled."
    ),
    Setting("response_body_limit", size(0, 64 * 1024), "16KiB", "How much of a response body is kept; at most 64KiB."),
    Setting("max_payload", size(1, LARGEST_PAYLOAD), volume(MAX_PAYLOAD), "The largest payload that is accepted."),
    Setting("max_batch", size(64 * 1024, 1024**3), "16MiB", "The largest request body of a batch of messages."),
    Setting("retention_days", integer(1, 3650), "30", "Days that finished messages, deliveries and attempts are kept."),
    Setting("dead_retention_days", integer(1, 3650), "30", "Days that dead letters are kept."),
    Setting("audit_retention_days", integer(1, 3650), "365", "Days that the audit log is kept."),
    Setting("idempotency_window", duration(60, 30 * DAY), "24h", "How long an idempotency key is remembered."),
    Setting("pool_size", integer(2, 1000), "10", "PostgreSQL connections per process."),
    Setting(
        "auto_migrate", flag, "true", "Whether `serve` and `worker` bring the database up to date when they start."
    ),
    Setting("dns_servers", servers, "", "Resolvers to ask instead of the system's: `9.9.9.9,[2620:fe::fe]:53`."),
    Setting("ca_bundle", existing_file, "", "A PEM file of authorities to trust instead of the system's or certifi's."),
    Setting("log_format", choice("human", "json"), "human", "`human` or `json`."),
    Setting("log_level", choice("debug", "info", "warning", "error"), "info", "`debug`, `info`, `warning` or `error`."),
    Setting(
        "log_attempts",
        choice("all", "failures", "off"),
        "all",
        "Which attempts have a line in the log, at `info`: `all`, `failures` or `off`.",
    ),
    Setting(
        "log_payloads",
        flag,
        "false",
        "Whether these lines have the beginning of what was sent and of what was answered, which may be anybody's secret.",
    ),
    Setting(
        "metrics_port",
        integer(0, 65535),
        "0",
        "A port of its own for `/metrics` and `/health`, for `worker` and `relay` too; 0: `/metrics` is on the API's.",
    ),
    Setting(
        "metrics_token",
        metrics_token,
        "",
        "To be presented to read `/metrics`. Without it they are open on a port of their own, and to this machine on the API's.",
        secret=True,
    ),
    Setting(
        "metrics_endpoints",
        endpoint_labels,
        "off",
        "Whether `/metrics` names the 20 endpoints that failed most: `off`, `top` (by id) or `hashed`.",
    ),
    Setting(
        "metrics_event_types",
        integer(0, 1000),
        "50",
        "How many event types `/metrics` tells apart; the rest are `other`.",
    ),
    Setting(
        "alert_backlog",
        or_off(integer(1, 10**9)),
        "1000",
        "An alert fires when more deliveries than this are due and not sent. This and the others: `off` to never.",
    ),
    Setting(
        "alert_backlog_growing",
        or_off(duration(180, 3600)),
        "5m",
        "... when that number has grown for so long, and by more than 100.",
    ),
    Setting(
        "alert_latency",
        or_off(duration(0.01, DAY)),
        "60s",
        "... when 5 % of the first attempts of five minutes begin later than this.",
    ),
    Setting("alert_dead_letters", or_off(integer(1, 10**9)), "10", "... when more dead letters are unresolved."),
    Setting(
        "alert_dead_letters_critical", or_off(integer(1, 10**9)), "100", "... likewise; the alert is critical then."
    ),
    Setting(
        "alert_dead_letters_growing",
        or_off(number(1, 1000)),
        "3",
        "... when so many times as many deliveries as usual died within an hour, and more than 10.",
    ),
    Setting(
        "alert_retries", or_off(percentage), "50%", "... when more than this part of the retries of 15 minutes failed."
    ),
    Setting(
        "alert_endpoint",
        or_off(percentage),
        "50%",
        "... when more than this part of one endpoint's attempts failed ...",
    ),
    Setting("alert_endpoint_for", duration(180, 2700), "15m", "... for so long."),
    Setting("alert_circuits", flag, "on", "... when a circuit opens."),
    Setting(
        "alert_last_attempts",
        or_off(integer(1, 10**9)),
        "20",
        "... when more deliveries than this came to their last attempt within 15 minutes.",
    ),
    Setting("alert_outbox_lag", or_off(duration(1, DAY)), "60s", "... when an outbox row waits for longer."),
    Setting(
        "alert_leases", or_off(integer(1, 10**9)), "10", "... when more leases than this ran out within 15 minutes."
    ),
    Setting(
        "alert_webhook_url",
        hook_url,
        "",
        "Where alerts are delivered to, signed (`hookline alerts secret`), with retries and dead letters as any webhook.",
        secret=True,
    ),
    Setting(
        "alert_slack_url",
        hook_url,
        "",
        "Likewise, in the form that Slack's incoming webhooks and their kin take.",
        secret=True,
    ),
    Setting("alert_email", emails, "", "Who gets alerts by e-mail, by commas; needs `HOOKLINE_SMTP_URL`."),
    Setting("alert_email_from", emails, "", "Whom these come from; else the first of those who get them."),
    Setting(
        "smtp_url",
        smtp_url,
        "",
        "The mail server: `smtp://user:password@host:587` (STARTTLS) or `smtps://user:password@host`.",
        secret=True,
    ),
)
