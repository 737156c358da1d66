"""One message's whole life, from what the database keeps of it: published, accepted, fanned out, each attempt, every hold, and
what follows. `hookline trace` and the message's page draw it."""

from hookline.story.advice import Remedy, advice, of_dead, remedy, sentences
from hookline.story.outlook import Prospect, held_by, outlook, prospects, standing
from hookline.story.reading import MOST_ATTEMPTS, MOST_EVENTS, MOST_TOLD, read
from hookline.story.times import (
    Happening,
    Part,
    Phase,
    Stretch,
    happenings,
    holds,
    phases,
    stretches,
)
from hookline.story.way import Story, Way, counted, word

__all__ = [
    "MOST_ATTEMPTS",
    "MOST_EVENTS",
    "MOST_TOLD",
    "Happening",
    "Part",
    "Phase",
    "Prospect",
    "Remedy",
    "Story",
    "Stretch",
    "Way",
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
