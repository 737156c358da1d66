"""All metrics that one process counts, with their names, help texts and labels, as `/metrics` shows them."""

from __future__ import annotations

from hookline.model.lanes import LaneEventKind
from hookline.model.measures import ATTEMPTS, QUICK, SECONDS, SIZES, Snapshot
from hookline.model.states import Reason
from hookline.model.verdicts import OUTCOMES
from hookline.observe.instruments import Counter, Histogram, Instrument, snapshot


class Meters:
    def __init__(self) -> None:
        # ingest and relay
        self.accepted = Counter(
            "hookline_messages_accepted_total", "Messages accepted.", "via", expected=("api", "outbox")
        )
        self.ingest_size = Histogram("hookline_ingest_batch_size", "Messages in one commit of the API.", SIZES)
        self.ingest_seconds = Histogram("hookline_ingest_duration_seconds", "Time of one commit of the API.", QUICK)
        self.relayed = Counter(
            "hookline_outbox_rows_total",
            "Outbox rows that left the outbox.",
            "outcome",
            expected=("relayed", "repeated", "set_aside"),
        )

        # claims and attempts
        self.claim_size = Histogram("hookline_claim_batch_size", "Deliveries leased by one claim.", SIZES)
        self.claim_seconds = Histogram("hookline_claim_duration_seconds", "Time of one claim.", QUICK)
        self.attempts = Counter("hookline_attempts_total", "Requests made.", "outcome", "result")
        self.retries = Counter(
            "hookline_retries_total", "Requests that were retries.", "outcome", expected=OUTCOMES.values()
        )
        self.last_attempts = Counter("hookline_last_attempts_total", "Deliveries whose next attempt is the last one.")
        self.retry_delay = Histogram(
            "hookline_retry_delay_seconds", "Time between a failed attempt and the next one.", SECONDS
        )
        self.attempt_seconds = Histogram(
            "hookline_attempt_duration_seconds",
            "Time of one request, from connecting to the end of the response.",
            SECONDS,
            "outcome",
            "event_type",
        )
        self.lag = Histogram(
            "hookline_send_lag_seconds",
            "Time between the due time of an attempt and its start.",
            SECONDS,
            "event_type",
        )
        self.first_latency = Histogram(
            "hookline_first_attempt_latency_seconds",
            "Time from acceptance, or from the requested delivery time, to the start of the first attempt.",
            SECONDS,
        )
        self.latency = Histogram(
            "hookline_delivery_latency_seconds", "Time from acceptance to delivery.", SECONDS, "event_type"
        )

        # finished deliveries, refused addresses, automatic changes of circuits and endpoints
        self.used = Histogram(
            "hookline_delivery_attempts", "Attempts that a finished delivery took.", ATTEMPTS, "outcome"
        )
        self.dead = Counter("hookline_dead_letters_total", "Deliveries that died.", "reason", expected=Reason)
        self.refusals = Counter(
            "hookline_guard_refusals_total",
            "Addresses that the guard refused.",
            "where",
            expected=("saved", "dialled"),
        )
        self.lane_events = Counter(
            "hookline_lane_events_total", "Automatic changes of circuits and endpoints.", "kind", expected=LaneEventKind
        )

        # record and sweep
        self.record_size = Histogram("hookline_record_batch_size", "Outcomes recorded by one transaction.", SIZES)
        self.record_seconds = Histogram(
            "hookline_record_duration_seconds", "Time of one transaction that records outcomes.", QUICK
        )
        self.handed_over = Counter(
            "hookline_handed_over_total", "Deliveries that the worker of the accepting process sent without a claim."
        )
        self.stale = Counter(
            "hookline_stale_outcomes_total", "Outcomes that were ignored because their lease was lost."
        )
        self.leases = Counter("hookline_leases_expired_total", "Leases that expired because a worker died or stalled.")
        self.repaired = Counter(
            "hookline_lanes_repaired_total", "Lanes with due work but without a wake token. Must stay 0."
        )

        # the API
        self.api_seconds = Histogram(
            "hookline_api_request_duration_seconds",
            "Time of one request to the API.",
            QUICK,
            "method",
            "route",
            "status",
        )
        self.bad_tokens = Counter(
            "hookline_api_bad_tokens_total",
            "Requests to the API with an invalid token or key.",
            "answer",
            expected=("401", "429"),
        )

    def instruments(self) -> list[Instrument]:
        return [each for each in vars(self).values() if isinstance(each, (Counter, Histogram))]

    def snapshot(self) -> Snapshot:
        return snapshot(self.instruments())
