"""The history of one message, read from the database: publication, acceptance, fan-out, attempts, holds and the next step.
`hookline trace` and the message page show it."""

from hookline.services.explain.advice import Remedy, advice, of_dead, remedy, sentences
from hookline.services.explain.model import DeliveryHistory, MessageHistory, counted, word
from hookline.services.explain.next_step import NextStep, held_by, outlook, prospects, standing
from hookline.services.explain.read import MAX_ATTEMPTS, MAX_EVENTS, MAX_TOLD, read
from hookline.services.explain.times import Happening, Part, Phase, Stretch, happenings, holds, phases, stretches

__all__ = [
    "MAX_ATTEMPTS",
    "MAX_EVENTS",
    "MAX_TOLD",
    "DeliveryHistory",
    "Happening",
    "MessageHistory",
    "NextStep",
    "Part",
    "Phase",
    "Remedy",
    "Stretch",
    "advice",
    "counted",
    "happenings",
    "held_by",
    "holds",
    "of_dead",
    "outlook",
    "phases",
    "prospects",
    "read",
    "remedy",
    "sentences",
    "standing",
    "stretches",
    "word",
]
