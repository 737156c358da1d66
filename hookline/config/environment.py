"""Turns environment variables into a `Config`. Each value is checked alone first, and then the values are checked
together."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from typing import Any

from hookline.config.settings import PREFIX, SETTINGS, Config, Setting
from hookline.config.urls import same_database
from hookline.errors import ConfigError, HooklineError
from hookline.model.policy import Strategy
from hookline.rules.units import span

TEST_PREFIX = "HOOKLINE_TEST_"  # variables of the test suite, which are ignored
# A lease must be at least this many seconds longer than the request timeout. The worker needs this time to start the
# request and to record its outcome.
LEASE_MARGIN = 10.0

# For a service named `hookline`, Kubernetes and Docker set variables such as HOOKLINE_PORT=tcp://10.0.0.7:8071. They
# are not settings, so they are ignored.
_INJECTED_NAME = re.compile(r"HOOKLINE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)", re.A)
_INJECTED_VALUE = re.compile(r"(tcp|udp|sctp)://.*")


def parse(environ: Mapping[str, str]) -> Config:
    """Return the checked configuration. No file is read or written, and secrets may still be missing."""
    given = {name: value.strip() for name, value in environ.items() if _is_setting(name, value)}
    _refuse_unknown(given)
    values = {setting.field: _value(setting, given.get(setting.variable, "")) for setting in SETTINGS}
    values["connect_timeout"] = min(values["connect_timeout"], values["request_timeout"])
    values["lane_share"] = _slots(values["lane_share"], values["concurrency"])
    config = Config(**values)
    _check_together(config)
    return config


def _is_setting(name: str, value: str) -> bool:
    if not name.startswith(PREFIX) or name.startswith(TEST_PREFIX) or _INJECTED_NAME.fullmatch(name):
        return False
    return not (name.endswith("_PORT") and _INJECTED_VALUE.fullmatch(value))


def _refuse_unknown(given: Mapping[str, str]) -> None:
    known = [setting.variable for setting in SETTINGS]
    for name in sorted(given):
        if name not in known:
            longer = [one for one in known if one.startswith(f"{name}_")]
            near = longer or difflib.get_close_matches(name, known, n=1, cutoff=0.75)
            raise ConfigError(f"{name}: unknown" + (f"; did you mean {near[0]}?" if near else ""))


def _value(setting: Setting, text: str) -> Any:
    try:
        return setting.parse(text or setting.default)
    except ValueError as takes:
        shown = "" if setting.secret else f", not {text if len(text) <= 60 else text[:60] + '…'!r}"
        raise ConfigError(f"{setting.variable}: takes {takes}{shown}") from None


def _slots(part: float, concurrency: int) -> int:
    slots = part if isinstance(part, int) else math.ceil(part * concurrency)
    return max(1, min(slots, concurrency))


def _check_together(config: Config) -> None:
    if config.lease < config.request_timeout + LEASE_MARGIN:
        minimum = span(config.request_timeout + LEASE_MARGIN)
        raise ConfigError(
            f"HOOKLINE_LEASE: {span(config.lease)} is too short for a request timeout of "
            f"{span(config.request_timeout)}; it must be at least {minimum}"
        )
    if config.metrics_port == config.port:
        raise ConfigError("HOOKLINE_METRICS_PORT: is the port of the API; leave it out to have `/metrics` on that port")
    _check_alerts(config)
    if config.retry_cap < config.retry_base:
        raise ConfigError(f"HOOKLINE_RETRY_CAP: {span(config.retry_cap)} is less than HOOKLINE_RETRY_BASE")
    if config.circuit_cooldown_cap < config.circuit_cooldown:
        cap = span(config.circuit_cooldown_cap)
        raise ConfigError(f"HOOKLINE_CIRCUIT_COOLDOWN_CAP: {cap} is less than HOOKLINE_CIRCUIT_COOLDOWN")
    if any(same_database(url, config.database_url) for url in config.outbox_urls):
        raise ConfigError(
            "HOOKLINE_OUTBOX_URLS: contains Hookline's own database; remove it, because its outbox is always relayed"
        )
    if (config.retry_strategy == Strategy.FIXED) != bool(config.retry_schedule):
        raise ConfigError("HOOKLINE_RETRY_SCHEDULE: set it if and only if HOOKLINE_RETRY_STRATEGY is fixed")


def _check_alerts(config: Config) -> None:
    for name in ("alert_webhook_url", "alert_slack_url"):
        url = getattr(config, name)
        try:
            if url is not None:
                config.guard.check_url(url)
        except HooklineError as error:
            raise ConfigError(f"HOOKLINE_{name.upper()}: {error}") from None
    if bool(config.alert_email) != bool(config.smtp_url):
        raise ConfigError("HOOKLINE_ALERT_EMAIL: set it together with HOOKLINE_SMTP_URL, or neither of them")
    if len(config.alert_email_from) > 1:
        raise ConfigError("HOOKLINE_ALERT_EMAIL_FROM: takes one address")
