"""Every setting accepts the documented values. A wrong value stops the start with one line that shows no secret."""

from __future__ import annotations

import base64
import os
import random
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import fields
from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hookline.config import PREFIX, SETTINGS, Config, Setting, load, parse, shown_url, table, written
from hookline.config.parsers import jwt_secrets
from hookline.errors import ConfigError
from hookline.model.policy import RetryPolicy, Strategy
from hookline.rules.alerts.conditions import Thresholds
from hookline.rules.alerts.wording import Channels
from hookline.rules.units import duration, span
from hookline.server.process import store_options
from hookline.signing.key_strength import weakness_of_text

JWT = "signs the tokens of the tests of settings"
KEY, OLD_KEY = (
    base64.b64encode(random.Random(seed).randbytes(32)).decode() for seed in (7, 9)
)  # fixed, because these values are part of test names
POSTGRES = {
    "HOOKLINE_DATABASE_URL": "postgresql://hook:hunter2@db.example:5433/hooks?sslmode=require",
    "HOOKLINE_JWT_SECRET": JWT,
    "HOOKLINE_SECRET_KEY": f"{KEY}, {OLD_KEY}",
}


def fault(environ: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        load(POSTGRES | environ)
    text = str(caught.value)
    assert "\n" not in text
    for secret in ("hunter2", JWT, KEY, OLD_KEY):
        assert secret not in text
    return text


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_defaults_are_those_of_the_design() -> None:
    config = parse({})
    assert config.database_url == "sqlite:///hookline.db"
    assert (config.host, config.port) == ("127.0.0.1", 8071)
    assert config.retry == RetryPolicy()
    assert store_options(config).circuit == config.circuit
    assert (config.request_timeout, config.connect_timeout, config.lease) == (30.0, 10.0, 60.0)
    assert (config.circuit.threshold, config.circuit.spread) == (5, 1.0)
    assert (config.circuit.cooldown, config.circuit.cooldown_cap) == (60.0, 3600.0)
    assert (config.concurrency, config.lane_share) == (1024, 256)
    assert (config.response_body_limit, config.max_payload) == (16 * 1024, 1024 * 1024)
    assert (config.pause_dead_per_day, config.disable_after) == (100, 5 * 86400.0)
    assert (config.allow_nets, config.dns_servers, config.ca_bundle) == ((), (), None)
    assert config.auto_migrate is True


NEW_SECRET, OLD_SECRET = "a new secret of thirty-six letters.", "an old secret that is older than the new"

EVERY = {
    "HOOKLINE_DATABASE_URL": ("postgresql://db.example/other", "database_url", "postgresql://db.example/other"),
    "HOOKLINE_OUTBOX_URLS": (
        "sqlite:///shop.db, postgresql://one,two:5433/shop",
        "outbox_urls",
        ("sqlite:///shop.db", "postgresql://one,two:5433/shop"),
    ),
    "HOOKLINE_OUTBOX_POLL": ("20ms", "outbox_poll", 0.02),
    "HOOKLINE_HOST": ("::1", "host", "::1"),
    "HOOKLINE_PORT": ("8072", "port", 8072),
    "HOOKLINE_PUBLIC_URL": ("https://hooks.example.com/", "public_url", "https://hooks.example.com"),
    "HOOKLINE_TRUSTED_PROXIES": (
        "127.0.0.1, fd12::/64",
        "trusted_proxies",
        (ip_network("127.0.0.1/32"), ip_network("fd12::/64")),
    ),
    "HOOKLINE_CONNECTIONS_PER_ADDRESS": ("99", "connections_per_address", 99),
    "HOOKLINE_PORTAL_ORIGINS": (
        "https://portal.example.com, http://localhost:3000",
        "portal_origins",
        ("https://portal.example.com", "http://localhost:3000"),
    ),
    "HOOKLINE_PORTAL_NAME": ("Acme Webhooks", "portal_name", "Acme Webhooks"),
    "HOOKLINE_PORTAL_COLOR": ("#1A73E8", "portal_color", "#1a73e8"),
    "HOOKLINE_PORTAL_LOGO": (__file__, "portal_logo", __file__),
    "HOOKLINE_RATE_LIMIT": ("50", "rate_limit", 50.0),
    "HOOKLINE_RATE_LIMIT_PORTAL": ("20", "rate_limit_portal", 20.0),
    "HOOKLINE_RATE_LIMIT_APPLICATION": ("30", "rate_limit_application", 30.0),
    "HOOKLINE_RATE_LIMIT_ORGANIZATION": ("0.5", "rate_limit_organization", 0.5),
    "HOOKLINE_CUSTOMER_ENDPOINTS": ("7", "customer_endpoints", 7),
    "HOOKLINE_ACCESS_LOG": ("Info", "access_log", "info"),
    "HOOKLINE_JWT_SECRET": (f"{NEW_SECRET}, {OLD_SECRET}", "jwt_secrets", (NEW_SECRET, OLD_SECRET)),
    "HOOKLINE_SECRET_KEY": (OLD_KEY, "secret_keys", (OLD_KEY,)),
    "HOOKLINE_ALLOW_NETS": (
        "127.0.0.0/8, ::1",
        "allow_nets",
        (ip_network("127.0.0.0/8"), ip_network("::1/128")),
    ),
    "HOOKLINE_ALLOW_PORTS": ("6443, 9200", "allow_ports", (6443, 9200)),
    "HOOKLINE_REQUEST_TIMEOUT": ("29s", "request_timeout", 29.0),
    "HOOKLINE_CONNECT_TIMEOUT": ("1500ms", "connect_timeout", 1.5),
    "HOOKLINE_RETRY_STRATEGY": ("decorrelated", "retry_strategy", Strategy.DECORRELATED),
    "HOOKLINE_RETRY_BASE": ("250ms", "retry_base", 0.25),
    "HOOKLINE_RETRY_FACTOR": ("2.5", "retry_factor", 2.5),
    "HOOKLINE_RETRY_CAP": ("5h", "retry_cap", 18000.0),
    "HOOKLINE_RETRY_MAX_ATTEMPTS": ("13", "retry_max_attempts", 13),
    "HOOKLINE_RETRY_MAX_AGE": ("2d", "retry_max_age", 172800.0),
    "HOOKLINE_RETRY_SCHEDULE": ("5s, 5m,1.5h", "retry_schedule", (5.0, 300.0, 5400.0)),
    "HOOKLINE_RETRY_AFTER_CAP": ("0", "retry_after_cap", 0.0),
    "HOOKLINE_CIRCUIT_THRESHOLD": ("6", "circuit_threshold", 6),
    "HOOKLINE_CIRCUIT_SPREAD": ("2", "circuit_spread", 2.0),
    "HOOKLINE_CIRCUIT_COOLDOWN": ("61", "circuit_cooldown", 61.0),
    "HOOKLINE_CIRCUIT_COOLDOWN_CAP": ("3h", "circuit_cooldown_cap", 10800.0),
    "HOOKLINE_CONCURRENCY": ("300", "concurrency", 300),
    "HOOKLINE_SILENT_CONCURRENCY": ("900", "silent_concurrency", 900),
    "HOOKLINE_CONCURRENCY_BYTES": ("9MiB", "concurrency_bytes", 9 << 20),
    "HOOKLINE_LANE_SHARE": ("7", "lane_share", 7),
    "HOOKLINE_APPLICATION_SHARE": ("50%", "application_share", 0.5),
    "HOOKLINE_LEASE": ("90", "lease", 90.0),
    "HOOKLINE_POLL_INTERVAL": ("3s", "poll_interval", 3.0),
    "HOOKLINE_SHUTDOWN_TIMEOUT": ("4s", "shutdown_timeout", 4.0),
    "HOOKLINE_SHUTDOWN_DELAY": ("3s", "shutdown_delay", 3.0),
    "HOOKLINE_PAUSE_DEAD_PER_DAY": ("101", "pause_dead_per_day", 101),
    "HOOKLINE_DISABLE_AFTER": ("6d", "disable_after", 518400.0),
    "HOOKLINE_RESPONSE_BODY_LIMIT": ("64KiB", "response_body_limit", 65536),
    "HOOKLINE_MAX_PAYLOAD": ("2 MiB", "max_payload", 2097152),
    "HOOKLINE_MAX_BATCH": ("3 MiB", "max_batch", 3145728),
    "HOOKLINE_RETENTION_DAYS": ("31", "retention_days", 31),
    "HOOKLINE_DEAD_RETENTION_DAYS": ("32", "dead_retention_days", 32),
    "HOOKLINE_AUDIT_RETENTION_DAYS": ("33", "audit_retention_days", 33),
    "HOOKLINE_IDEMPOTENCY_WINDOW": ("12h", "idempotency_window", 43200.0),
    "HOOKLINE_POOL_SIZE": ("9", "pool_size", 9),
    "HOOKLINE_DATABASE_TIMEOUT": ("7s", "database_timeout", 7.0),
    "HOOKLINE_AUTO_MIGRATE": ("off", "auto_migrate", False),
    "HOOKLINE_DNS_SERVERS": (
        "9.9.9.9:5353,2620:fe::fe,[::1]:53",
        "dns_servers",
        ("9.9.9.9:5353", "2620:fe::fe", "[::1]:53"),
    ),
    "HOOKLINE_CA_BUNDLE": (__file__, "ca_bundle", __file__),
    "HOOKLINE_LOG_FORMAT": ("JSON", "log_format", "json"),
    "HOOKLINE_LOG_LEVEL": ("debug", "log_level", "debug"),
    "HOOKLINE_LOG_ATTEMPTS": ("failures", "log_attempts", "failures"),
    "HOOKLINE_METRICS_PORT": ("9464", "metrics_port", 9464),
    "HOOKLINE_METRICS_TOKEN": ("sesame-opens-metrics", "metrics_token", "sesame-opens-metrics"),
    "HOOKLINE_METRICS_ENDPOINTS": ("Hashed", "metrics_endpoints", "hashed"),
    "HOOKLINE_METRICS_EVENT_TYPES": ("0", "metrics_event_types", 0),
    "HOOKLINE_LOG_PAYLOADS": ("true", "log_payloads", True),
    "HOOKLINE_ALERT_BACKLOG": ("off", "alert_backlog", 0),
    "HOOKLINE_ALERT_BACKLOG_GROWING": ("10m", "alert_backlog_growing", 600.0),
    "HOOKLINE_ALERT_LATENCY": ("1.5s", "alert_latency", 1.5),
    "HOOKLINE_ALERT_DEAD_LETTERS": ("0", "alert_dead_letters", 0),
    "HOOKLINE_ALERT_DEAD_LETTERS_CRITICAL": ("1000", "alert_dead_letters_critical", 1000),
    "HOOKLINE_ALERT_DEAD_LETTERS_GROWING": ("2.5", "alert_dead_letters_growing", 2.5),
    "HOOKLINE_ALERT_RETRIES": ("75%", "alert_retries", 0.75),
    "HOOKLINE_ALERT_ENDPOINT": ("0.4", "alert_endpoint", 0.4),
    "HOOKLINE_ALERT_ENDPOINT_FOR": ("20m", "alert_endpoint_for", 1200.0),
    "HOOKLINE_ALERT_CIRCUITS": ("off", "alert_circuits", False),
    "HOOKLINE_ALERT_LAST_ATTEMPTS": ("21", "alert_last_attempts", 21),
    "HOOKLINE_ALERT_OUTBOX_LAG": ("2m", "alert_outbox_lag", 120.0),
    "HOOKLINE_ALERT_LEASES": ("Off", "alert_leases", 0),
    "HOOKLINE_ALERT_WEBHOOK_URL": ("https://a.example.com/x?y=z", "alert_webhook_url", "https://a.example.com/x?y=z"),
    "HOOKLINE_ALERT_SLACK_URL": ("https://s.example.com/x", "alert_slack_url", "https://s.example.com/x"),
    "HOOKLINE_ALERT_EMAIL": ("a@example.com, b+c@example.com", "alert_email", ("a@example.com", "b+c@example.com")),
    "HOOKLINE_ALERT_EMAIL_FROM": ("h@example.com", "alert_email_from", ("h@example.com",)),
    "HOOKLINE_SMTP_URL": ("smtps://u:p@mail.example.com", "smtp_url", "smtps://u:p@mail.example.com"),
}


def test_the_tests_cover_every_setting_and_field() -> None:
    assert {setting.variable for setting in SETTINGS} == set(EVERY)
    assert [setting.field for setting in SETTINGS if not hasattr(parse({}), setting.field)] == []
    assert {setting.field for setting in SETTINGS} == {field.name for field in fields(Config)}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.field)
def test_a_value_is_shown_as_one_would_write_it(setting: Setting) -> None:
    assert written(setting, setting.parse(setting.default)) == setting.default
    value = EVERY[setting.variable][2]
    assert setting.parse(written(setting, value)) == value


SHOWN = {
    "lease": (90.0, "90s"),
    "max_payload": (65_536, "64KiB"),
    "retry_schedule": ((1.5, 300.0), "1500ms,5m"),
    "retry_factor": (2.5, "2.5"),
    "alert_retries": (0.33, "33%"),
    "alert_backlog": (0, "off"),
    "auto_migrate": (False, "off"),
    "allow_nets": ((ip_network("10.0.0.0/8"), ip_network("::1/128")), "10.0.0.0/8,::1/128"),
}


@pytest.mark.parametrize("field", SHOWN)
def test_values_are_shown_in_their_units(field: str) -> None:
    (setting,) = (setting for setting in SETTINGS if setting.field == field)
    value, text = SHOWN[field]
    assert written(setting, value) == text


MAIL = ("HOOKLINE_ALERT_EMAIL", "HOOKLINE_SMTP_URL")  # these two settings need each other


@pytest.mark.parametrize("variable", EVERY)
def test_a_setting_changes_only_its_field(variable: str) -> None:
    text, field, value = EVERY[variable]
    given = {variable: f" {text} "}
    if variable == "HOOKLINE_RETRY_SCHEDULE":
        given["HOOKLINE_RETRY_STRATEGY"] = "fixed"
    if variable in MAIL:
        given = {name: EVERY[name][0] for name in MAIL} | given
    before, after = parse({}), parse(given)
    changed = {field.name for field in fields(Config) if getattr(before, field.name) != getattr(after, field.name)}
    assert getattr(after, field) == value
    assert field in changed
    together = {"concurrency": {"lane_share"}, "alert_email": {"smtp_url"}, "smtp_url": {"alert_email"}}
    assert changed - {field} <= {"retry_strategy"} | together.get(field, set())


def test_store_options_carry_the_settings() -> None:
    options = store_options(parse({name: text for name, (text, _, _) in EVERY.items() if "RETRY_S" not in name}))
    assert (options.lease, options.retention_days, options.dead_retention_days) == (90.0, 31, 32)
    assert options.audit_retention_days == 33
    assert (options.idempotency_hours, options.pool_size) == (12.0, 9)
    assert (options.retry.base, options.retry.factor, options.retry.cap) == (0.25, 2.5, 18000.0)
    assert (options.retry.max_attempts, options.retry.max_age, options.retry.retry_after_cap) == (13, 172800.0, 0.0)
    assert (options.circuit.threshold, options.circuit.spread) == (6, 2.0)
    assert (options.circuit.cooldown, options.circuit.cooldown_cap) == (61.0, 10800.0)


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("https://Hooks.Example.com:443/", "https://hooks.example.com"),
        ("HTTPS://hooks.example.com:", "https://hooks.example.com"),
        ("http://hooks.example.com:80", "http://hooks.example.com"),
        ("http://hooks.example.com:443", "http://hooks.example.com:443"),
        ("https://[FD00::1]:8443", "https://[fd00::1]:8443"),
    ],
)
def test_origins_are_as_browsers_send_them(written: str, sent: str) -> None:
    """Otherwise a session over TLS is not recognised, and its cookie is sent without protection."""
    assert parse({"HOOKLINE_PUBLIC_URL": written}).public_url == sent
    if written.islower() and not written.endswith(("/", ":")):
        assert parse({"HOOKLINE_PORTAL_ORIGINS": written}).portal_origins == (sent,)


def test_a_fixed_schedule_reaches_the_policy() -> None:
    retry = parse({"HOOKLINE_RETRY_STRATEGY": "fixed", "HOOKLINE_RETRY_SCHEDULE": "1s,2m"}).retry
    assert (retry.strategy, retry.schedule) == (Strategy.FIXED, (1.0, 120.0))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PORT", "eighty"),
        ("PORT", "0"),
        ("PORT", "65536"),
        ("PORT", "-1"),
        ("PORT", "8071.0"),
        ("PORT", "８０"),
        ("PORT", "1_000"),
        ("PORT", "9" * 5000),
        ("HOST", "a b"),
        ("HOST", "http://x"),
        ("PUBLIC_URL", "hooks.example.com"),
        ("PUBLIC_URL", "ftp://hooks.example.com"),
        ("PUBLIC_URL", "https://hooks.example.com?token=1"),
        ("PUBLIC_URL", "https://hooks.example.com/#"),
        ("PUBLIC_URL", "https://user@hooks.example.com"),
        ("PUBLIC_URL", "https://hooks.example.com:99999"),
        ("PUBLIC_URL", "https://[::1"),
        ("PUBLIC_URL", "https://a b"),
        ("PUBLIC_URL", "https://"),
        ("PUBLIC_URL", "https://example.com/hooks"),
        ("PUBLIC_URL", "https://example.com/hooks/"),
        ("PORTAL_ORIGINS", "*"),
        ("PORTAL_ORIGINS", "https://portal.example.com/"),
        ("PORTAL_ORIGINS", "https://Portal.example.com"),
        ("PORTAL_ORIGINS", "https://a.example;https://b.example"),
        ("PORTAL_ORIGINS", "portal.example.com"),
        ("RATE_LIMIT", "-1"),
        ("RATE_LIMIT", "many"),
        ("RATE_LIMIT_ORGANIZATION", "1e9"),
        ("ACCESS_LOG", "warning"),
        ("ALLOW_NETS", "127.0.0.1/8"),
        ("ALLOW_NETS", "10.0.0.0/33"),
        ("ALLOW_NETS", "localhost"),
        ("ALLOW_NETS", "127.0.0.0/8;10.0.0.0/8"),
        ("ALLOW_NETS", "64:ff9b:1::/48"),
        ("ALLOW_PORTS", "0"),
        ("ALLOW_PORTS", "65536"),
        ("ALLOW_PORTS", "6000-7000"),
        ("ALLOW_PORTS", "redis"),
        ("REQUEST_TIMEOUT", "0"),
        ("REQUEST_TIMEOUT", "nan"),
        ("REQUEST_TIMEOUT", "inf"),
        ("REQUEST_TIMEOUT", "1e3"),
        ("REQUEST_TIMEOUT", "-5s"),
        ("REQUEST_TIMEOUT", "5 minutes"),
        ("REQUEST_TIMEOUT", "1h"),
        ("RETRY_BASE", "0"),
        ("RETRY_FACTOR", "0.9"),
        ("RETRY_FACTOR", "nan"),
        ("RETRY_FACTOR", "1e2"),
        ("RETRY_MAX_ATTEMPTS", "0"),
        ("RETRY_MAX_ATTEMPTS", "101"),
        ("RETRY_MAX_AGE", "31d"),
        ("RETRY_SCHEDULE", "5s,soon"),
        ("RETRY_SCHEDULE", ",".join(["1s"] * 51)),
        ("RETRY_STRATEGY", "linear"),
        ("LANE_SHARE", "0"),
        ("LANE_SHARE", "0.0"),
        ("LANE_SHARE", "1.5"),
        ("LANE_SHARE", "101%"),
        ("LANE_SHARE", "a quarter"),
        ("RESPONSE_BODY_LIMIT", "65KiB"),
        ("RESPONSE_BODY_LIMIT", "16KB"),
        ("MAX_PAYLOAD", "0"),
        ("MAX_PAYLOAD", "1GiB"),
        ("AUTO_MIGRATE", "maybe"),
        ("DNS_SERVERS", "dns.google"),
        ("DNS_SERVERS", "9.9.9.9:0"),
        ("DNS_SERVERS", "9.9.9.9:99999"),
        ("DNS_SERVERS", "9.9.9.9/x"),
        ("CA_BUNDLE", "/nowhere/ca.pem"),
        ("CA_BUNDLE", "/"),
        ("LOG_FORMAT", "xml"),
        ("METRICS_PORT", "65536"),
        ("METRICS_ENDPOINTS", "all"),
        ("METRICS_EVENT_TYPES", "1001"),
        ("LOG_LEVEL", "trace"),
        ("ALERT_BACKLOG", "many"),
        ("ALERT_BACKLOG_GROWING", "1m"),
        ("ALERT_LATENCY", "never"),
        ("ALERT_DEAD_LETTERS_GROWING", "0.5"),
        ("ALERT_RETRIES", "half"),
        ("ALERT_RETRIES", "100%"),
        ("ALERT_ENDPOINT_FOR", "off"),
        ("ALERT_EMAIL", "ops"),
        ("ALERT_EMAIL", "a@example.com,Ops <b@example.com>"),
        ("ALERT_EMAIL", "a@example.com b@example.com"),
        ("POOL_SIZE", "1"),
        ("RETENTION_DAYS", "0"),
        ("CONCURRENCY", "0"),
    ],
)
def test_a_wrong_value_is_named_and_shown(variable: str, value: str) -> None:
    text = fault({PREFIX + variable: value})
    assert text.startswith(f"{PREFIX}{variable}: takes ")
    assert value[:60] in text
    assert len(text) < 300


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("JWT_SECRET", "hunter2"),
        ("JWT_SECRET", "hunter2 is said twice and is long,hunter2 is said twice and is long"),
        ("JWT_SECRET", ",".join(f"hunter2 with the number {n:02} behind it" for n in range(11))),
        ("SECRET_KEY", "hunter2"),
        ("SECRET_KEY", f"{KEY},hunter2"),
        ("SECRET_KEY", f"{KEY},{KEY}"),
        ("METRICS_TOKEN", "hunter2"),
        ("METRICS_TOKEN", "hunter2 with spaces, which no header has"),
        ("ALERT_WEBHOOK_URL", "hooks.example.com/hunter2"),
        ("ALERT_WEBHOOK_URL", "https://hooks.example.com/hunter2 x"),
        ("ALERT_SLACK_URL", "ftp://hooks.example.com/hunter2"),
        ("ALERT_SLACK_URL", "https://[::1/hunter2"),
        ("SMTP_URL", "http://u:hunter2@mail.example.com"),
        ("SMTP_URL", "smtp://u:hunter2@"),
        ("SMTP_URL", "smtp://u:hunter2@mail.example.com/x"),
        ("SMTP_URL", "smtp://u:hunter2@mail.example.com:0"),
        ("DATABASE_URL", "mysql://root:hunter2@db/x"),
        ("DATABASE_URL", "postgresql:root:hunter2@db/x"),
        ("DATABASE_URL", "postgresql://"),
        ("DATABASE_URL", "sqlite://hunter2.db"),
        ("DATABASE_URL", "sqlite:///"),
        ("DATABASE_URL", "sqlite:///:memory:"),
        ("DATABASE_URL", "sqlite:///a%00b"),
        ("DATABASE_URL", "hunter2"),
    ],
)
def test_a_wrong_secret_is_named_and_not_shown(variable: str, value: str) -> None:
    assert fault({PREFIX + variable: value}).startswith(f"{PREFIX}{variable}: takes ")


@pytest.mark.parametrize("variable", ["HOOKLINE_ALERT_WEBHOOK_URL", "HOOKLINE_ALERT_SLACK_URL"])
@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/hunter2",
        "https://localhost/hunter2",
        "https://u:hunter2@a.example.com/",
        "http://a.example.com:25/",
    ],
)
def test_alerts_go_where_webhooks_may(variable: str, url: str) -> None:
    assert fault({variable: url}).startswith(f"{variable}: url: ")
    if "127.0.0.1" in url:
        assert parse({variable: url, "HOOKLINE_ALLOW_NETS": "127.0.0.0/8"})


def test_mail_needs_a_server_and_a_recipient() -> None:
    mail, server = {"HOOKLINE_ALERT_EMAIL": "a@example.com"}, {"HOOKLINE_SMTP_URL": "smtp://u:hunter2@mail.example.com"}
    for half in (mail, server):
        assert fault(half) == "HOOKLINE_ALERT_EMAIL: set it together with HOOKLINE_SMTP_URL, or neither of them"
    assert parse(mail | server).channels.email_from == "a@example.com"
    two = {"HOOKLINE_ALERT_EMAIL_FROM": "b@example.com,c@example.com"}
    assert fault(mail | server | two) == "HOOKLINE_ALERT_EMAIL_FROM: takes one address"


def test_alerts_have_their_documented_defaults() -> None:
    assert parse({}).thresholds == Thresholds()
    assert parse({}).channels == Channels()
    assert parse({"HOOKLINE_ALERT_BACKLOG": "7"}).thresholds == Thresholds(backlog=7)


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("HOOKLINE_RETRY_MAX", "HOOKLINE_RETRY_MAX_ATTEMPTS"),
        ("HOOKLINE_DATABSE_URL", "HOOKLINE_DATABASE_URL"),
        ("HOOKLINE_SECRET_KEYS", "HOOKLINE_SECRET_KEY"),
        ("HOOKLINE_ALLOW_NET", "HOOKLINE_ALLOW_NETS"),
    ],
)
def test_an_unknown_variable_gets_the_nearest_name(variable: str, nearest: str) -> None:
    assert fault({variable: "hunter2"}) == f"{variable}: unknown; did you mean {nearest}?"


def test_an_unknown_variable_without_a_neighbour() -> None:
    assert fault({"HOOKLINE_XYZZY": "hunter2"}) == "HOOKLINE_XYZZY: unknown"


def test_variables_of_other_programs_are_ignored() -> None:
    kubernetes = {
        "HOOKLINE_PORT": "tcp://10.3.2.1:8071",
        "HOOKLINE_SERVICE_HOST": "10.3.2.1",
        "HOOKLINE_SERVICE_PORT": "8071",
        "HOOKLINE_SERVICE_PORT_HTTP": "8071",
        "HOOKLINE_PORT_8071_TCP": "tcp://10.3.2.1:8071",
        "HOOKLINE_PORT_8071_TCP_PROTO": "tcp",
        "HOOKLINE_WORKER_SERVICE_HOST": "10.3.2.2",
        "HOOKLINE_WORKER_PORT": "tcp://10.3.2.2:80",
        "HOOKLINE_WORKER_PORT_80_TCP_ADDR": "10.3.2.2",
    }
    others = {"PATH": "/bin", "HOOKLINEX": "1", "HOOKLINE_TEST_PG": "local", "hookline_port": "1"}
    assert parse(kubernetes | others) == parse({})


def test_an_empty_variable_is_not_set() -> None:
    assert parse({setting.variable: " " for setting in SETTINGS}) == parse({})


@pytest.mark.parametrize(
    ("environ", "variable"),
    [
        ({"HOOKLINE_LEASE": "39s"}, "HOOKLINE_LEASE"),
        ({"HOOKLINE_REQUEST_TIMEOUT": "51s"}, "HOOKLINE_LEASE"),
        ({"HOOKLINE_RETRY_BASE": "10s", "HOOKLINE_RETRY_CAP": "9s"}, "HOOKLINE_RETRY_CAP"),
        ({"HOOKLINE_CIRCUIT_COOLDOWN": "2h"}, "HOOKLINE_CIRCUIT_COOLDOWN_CAP"),
        ({"HOOKLINE_RETRY_STRATEGY": "fixed"}, "HOOKLINE_RETRY_SCHEDULE"),
        ({"HOOKLINE_RETRY_SCHEDULE": "5s"}, "HOOKLINE_RETRY_SCHEDULE"),
        ({"HOOKLINE_JWT_SECRET": ""}, "HOOKLINE_JWT_SECRET"),
        ({"HOOKLINE_SECRET_KEY": ""}, "HOOKLINE_SECRET_KEY"),
    ],
)
def test_contradicting_settings_are_refused(environ: dict[str, str], variable: str) -> None:
    assert fault(environ).startswith(f"{variable}: ")


def test_the_lease_may_be_exactly_long_enough() -> None:
    assert parse({"HOOKLINE_LEASE": "40s"}).lease == 40.0
    assert parse({"HOOKLINE_REQUEST_TIMEOUT": "50s"}).lease == 60.0


def test_connecting_takes_no_longer_than_the_attempt() -> None:
    assert parse({"HOOKLINE_REQUEST_TIMEOUT": "2s"}).connect_timeout == 2.0


@pytest.mark.parametrize(
    ("share", "slots"),
    [("0.25", 50), ("25%", 50), ("0.001", 1), ("100%", 200), ("1.0", 200), ("1", 1), ("64", 64), ("999", 200)],
)
def test_a_share_is_a_part_or_a_number(share: str, slots: int) -> None:
    assert parse({"HOOKLINE_LANE_SHARE": share, "HOOKLINE_CONCURRENCY": "200"}).lane_share == slots


@pytest.mark.parametrize(("share", "part"), [("0.75", 0.75), ("12.5%", 0.125), ("1", 1.0), ("100%", 1.0), ("1.0", 1.0)])
def test_an_applications_share_is_a_part(share: str, part: float) -> None:
    assert parse({"HOOKLINE_APPLICATION_SHARE": share}).application_share == part


@pytest.mark.parametrize("share", ["0", "64", "1.1", "101%", "-1", "nan", "half", "0.0", "1e-3"])
def test_a_share_outside_its_bounds_is_refused(share: str) -> None:
    assert "a fraction of the slots" in fault({"HOOKLINE_APPLICATION_SHARE": share})


@settings(deadline=None)
@given(st.integers(1, 10**6).map(lambda n: n / 1000))
def test_a_duration_is_read_as_it_is_shown(seconds: float) -> None:
    assert duration(0, 10**7)(span(seconds)) == pytest.approx(seconds)


def test_metrics_have_another_port_than_the_api() -> None:
    assert fault({"HOOKLINE_METRICS_PORT": "8071"}).startswith("HOOKLINE_METRICS_PORT: is the port of the API")
    assert parse({"HOOKLINE_METRICS_PORT": "8071", "HOOKLINE_PORT": "8072"}).metrics_port == 8071


# ── secrets ──


def test_no_output_shows_a_secret() -> None:
    more = {
        "HOOKLINE_OUTBOX_URLS": "postgresql://shop:hunter2@shop.example/shop",
        "HOOKLINE_METRICS_TOKEN": "hunter2-opens-metrics",
    }
    more |= {
        "HOOKLINE_ALERT_SLACK_URL": "https://s.example.com/hunter2",
        "HOOKLINE_ALERT_WEBHOOK_URL": "https://h.example.com/?k=hunter2",
    }
    more |= {"HOOKLINE_SMTP_URL": "smtps://u:hunter2@mail.example.com", "HOOKLINE_ALERT_EMAIL": "a@example.com"}
    loaded = load(POSTGRES | more)
    shown = repr(loaded) + repr(loaded.channels)
    for secret in ("hunter2", JWT, KEY, OLD_KEY, "hook:"):
        assert secret not in shown
    assert "db.example:5433/hooks" in shown
    assert "postgresql://shop.example/shop" in shown
    assert "lease=60.0" in shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////var/lib/hooks.db", "sqlite:////var/lib/hooks.db"),
        ("postgresql://db/hooks", "postgresql://db/hooks"),
        ("postgres://u:hunter2@db:5432/hooks?password=hunter2", "postgres://db:5432/hooks"),
        ("postgresql://u:hunter2@one:1,two:2/hooks", "postgresql://one:1,two:2/hooks"),
        ("postgresql://u:hunter2@[::1]:5432/hooks", "postgresql://[::1]:5432/hooks"),
        ("postgresql:///hooks?host=/run/pg&password=hunter2", "postgresql:///hooks"),
    ],
)
def test_a_database_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:x@hunter2@db/hooks",
        "postgresql://u:x?hunter2@db/hooks",
        "postgresql://u:x/hunter2@db/hooks",
        "postgresql://u:x#hunter2@db/hooks",
        "postgresql://u:x@db/hooks?password=y@hunter2",
    ],
)
def test_a_database_url_that_could_be_read_in_two_ways_is_not_shown(url: str) -> None:
    assert shown_url(url) == "postgresql://…"


# ── outboxes of other databases ──


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("", ()),
        (" , ", ()),
        ("sqlite:///shop.db,", ("sqlite:///shop.db",)),
        ("sqlite:///a%2Cb.db , sqlite:////srv/c.db", ("sqlite:///a%2Cb.db", "sqlite:////srv/c.db")),
        ("postgres://u:p,q@one:1,two:2/shop,sqlite:///c.db", ("postgres://u:p,q@one:1,two:2/shop", "sqlite:///c.db")),
    ],
)
def test_outboxes_are_separated_by_commas(text: str, urls: tuple[str, ...]) -> None:
    assert parse({"HOOKLINE_OUTBOX_URLS": text}).outbox_urls == urls


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("shop.db", "sqlite:///file.db"),
        ("mysql://u:hunter2@h/shop", "sqlite:///file.db"),
        ("sqlite:///:memory:", "memory"),
        ("sqlite:///shop.db,hunter2.db", "%2C"),
        ("sqlite:///shop.db, sqlite:///./shop.db", "listed twice"),
        ("postgresql://u:hunter2@DB.example/shop,postgres://v:x@db.example:5432/shop?sslmode=require", "listed twice"),
    ],
)
def test_invalid_outbox_urls_are_refused_without_showing_them(text: str, word: str) -> None:
    assert word in fault({"HOOKLINE_OUTBOX_URLS": text})


@pytest.mark.parametrize(
    ("own", "named"),
    [
        ("sqlite:///hookline.db", "sqlite:///x/../hookline.db"),
        ("postgresql://h:hunter2@db/hooks", "sqlite:///shop.db,postgresql://shop:hunter2@db:5432/hooks"),
    ],
)
def test_the_own_database_is_no_outbox_of_an_application(own: str, named: str) -> None:
    settings = {"HOOKLINE_DATABASE_URL": own, "HOOKLINE_OUTBOX_URLS": named}
    assert "own database" in fault(settings)


def test_databases_of_one_server_are_several() -> None:
    urls = "postgresql://db/one,postgresql://db/two,postgresql://db:5433/one,postgresql://[::1]:5432/one"
    assert len(parse({"HOOKLINE_DATABASE_URL": "postgresql://db/hooks", "HOOKLINE_OUTBOX_URLS": urls}).outbox_urls) == 4


# ── generated keys ──


def test_sqlite_makes_its_keys_once(in_folder: Path) -> None:
    first = load({})
    file = in_folder / "hookline.db.keys"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(first.jwt_secret) >= 32
    assert len(first.secret_keys) == 1
    assert load({}) == first
    assert [path.name for path in in_folder.iterdir()] == ["hookline.db.keys"]


def test_keys_are_for_the_owner_alone_whatever_the_umask(in_folder: Path) -> None:
    before = os.umask(0)
    try:
        load({})
    finally:
        os.umask(before)
    assert stat.S_IMODE((in_folder / "hookline.db.keys").stat().st_mode) == 0o600


def test_keys_are_beside_the_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/my%20hooks.db"
    config = load({"HOOKLINE_DATABASE_URL": url})
    assert (tmp_path / "my hooks.db.keys").exists()
    assert config.database_file == tmp_path / "my hooks.db"


def test_processes_that_start_at_once_use_the_same_keys(in_folder: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: load({}), range(16)))
    assert {(config.jwt_secret, config.secret_keys) for config in found} == {
        (found[0].jwt_secret, found[0].secret_keys)
    }
    assert [path.name for path in in_folder.iterdir()] == ["hookline.db.keys"]


def test_a_given_secret_wins_over_the_stored_one(in_folder: Path) -> None:
    kept = load({})
    config = load({"HOOKLINE_SECRET_KEY": f"{KEY},{kept.secret_keys[0]}"})
    assert config.secret_keys == (KEY, kept.secret_keys[0])
    assert config.jwt_secret == kept.jwt_secret


def test_given_secrets_make_no_file(in_folder: Path) -> None:
    load({"HOOKLINE_SECRET_KEY": KEY, "HOOKLINE_JWT_SECRET": JWT})
    parse({})
    assert list(in_folder.iterdir()) == []


@pytest.mark.parametrize("variable", ["PORTAL_LOGO", "CA_BUNDLE", "DATABASE_URL", "OUTBOX_URLS"])
@pytest.mark.parametrize(
    "name",
    ["x" * 600, "x" * 600 + "/file", "x/" * 3000, "a\0b", "folder", "file/file", "nothing/file", "loop"],
)
def test_a_path_that_cannot_be_used_is_a_clear_error(in_folder: Path, variable: str, name: str) -> None:
    """The relay checks the path of an outbox, because the application may create the file later. A database that is a
    loop of links is refused when it is opened."""
    (in_folder / "folder").mkdir()
    (in_folder / "file").touch()
    (in_folder / "loop").symlink_to("loop")
    given = f"{in_folder}/{name}"
    if variable == "DATABASE_URL":
        given = f"sqlite:///{given}"
    elif variable == "OUTBOX_URLS":
        given = f"sqlite:///{given},sqlite:///other.db"
    usable = (variable == "OUTBOX_URLS" and "\0" not in name) or (variable, name) == ("DATABASE_URL", "loop")
    with nullcontext() if usable else pytest.raises(ConfigError):
        load({PREFIX + variable: given})


def test_keys_that_are_no_text_are_refused(in_folder: Path) -> None:
    file = in_folder / "hookline.db.keys"
    file.write_bytes(b"\xff\xfe")
    file.chmod(0o600)
    with pytest.raises(ConfigError, match=r"hookline\.db\.keys: not a text file"):
        load({})


def test_lost_keys_are_not_replaced(in_folder: Path) -> None:
    load({})
    (in_folder / "hookline.db").write_bytes(b"SQLite format 3\x00")
    (in_folder / "hookline.db.keys").unlink()
    with pytest.raises(ConfigError, match=r"hookline\.db\.keys: missing, but hookline\.db has data"):
        load({})
    assert not (in_folder / "hookline.db.keys").exists()
    (in_folder / "hookline.db").write_bytes(b"")
    assert load({}).secret_keys


def test_keys_that_others_can_read_are_refused(in_folder: Path) -> None:
    load({})
    file = in_folder / "hookline.db.keys"
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        load({})
    file.chmod(0o660)  # the mode that Kubernetes sets on a volume with an fsGroup
    load({})


@pytest.mark.parametrize(
    "content", ["", "HOOKLINE_JWT_SECRET=" + JWT, "nonsense", f"HOOKLINE_JWT_SECRET={JWT}\nHOOKLINE_SECRET_KEY=hunter2"]
)
def test_damaged_keys_are_refused(in_folder: Path, content: str) -> None:
    file = in_folder / "hookline.db.keys"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        load({})
    assert "hookline.db.keys" in str(caught.value)
    assert JWT not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_error_names_a_missing_folder() -> None:
    with pytest.raises(ConfigError, match="the directory /nowhere/at/all does not exist"):
        load({"HOOKLINE_DATABASE_URL": "sqlite:////nowhere/at/all/hooks.db"})


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        (NEW_SECRET, (NEW_SECRET,)),
        (f"{NEW_SECRET},{OLD_SECRET}", (NEW_SECRET, OLD_SECRET)),
        (f" {NEW_SECRET} , {OLD_SECRET} ,", (NEW_SECRET, OLD_SECRET)),
        (f",{NEW_SECRET},, ,{OLD_SECRET}", (NEW_SECRET, OLD_SECRET)),
        (f"\udcff{NEW_SECRET}", (f"\udcff{NEW_SECRET}",)),
    ],
)
def test_several_token_secrets_are_read_in_order(text: str, secrets: tuple[str, ...]) -> None:
    config = parse({"HOOKLINE_JWT_SECRET": text})
    assert (config.jwt_secrets, config.jwt_secret) == (secrets, secrets[0])
    assert not [each for each in secrets if each in repr(config)]


PARTS = st.lists(st.text("abcdefgh, ", max_size=31), max_size=9)


@given(before=PARTS, long=st.sampled_from([NEW_SECRET, "short", ""]), behind=PARTS)
def test_a_secret_with_commas_is_taken_as_the_release_before_took_it(
    before: list[str], long: str, behind: list[str]
) -> None:
    """A text with commas is one secret, unless two of its parts are long enough to be secrets."""
    text = ",".join([*before, long, *behind])
    assume(len(text) >= 32 and weakness_of_text(text) is None)
    assert jwt_secrets(text) == (text,)


@pytest.mark.parametrize("part", ["short", "a" * 32, NEW_SECRET])
def test_each_of_several_secrets_is_long_random_and_listed_once(part: str) -> None:
    with pytest.raises(ValueError, match=r"at least 32 characters that nobody can guess|different secrets"):
        jwt_secrets(f"{NEW_SECRET},{OLD_SECRET},{part}")


# ── documentation ──

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_the_documented_table_is_current() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "hookline.config"], capture_output=True, text=True, check=True
    ).stdout
    assert printed == table() + "\n"
    documented = DOCS.read_text(encoding="utf-8").partition("<!-- settings -->\n")[2].partition("<!-- /settings -->")[0]
    assert documented == printed, "run `python -m hookline.config` and put its output into docs/reference/settings.md"


def test_the_documented_errors_are_real() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert fault({"HOOKLINE_RETRY_MAX": "3"}) in text
    assert fault({"HOOKLINE_PORT": "eighty"}) in text


def test_every_variable_in_the_documentation_exists() -> None:
    known = {setting.variable for setting in SETTINGS} | {
        "HOOKLINE_RETRY_MAX",
        "HOOKLINE_SERVICE_HOST",
        "HOOKLINE_TEST_",
        "HOOKLINE_",
    }
    assert set(re.findall(r"HOOKLINE_[A-Z_]*", DOCS.read_text(encoding="utf-8"))) <= known
