"""The history of one message, read from the database: publication, acceptance, fan-out, attempts, holds and the next
step. `hookline trace` and the message page show it."""

from hookline.services.explain.advice import Remedy, advice, of_dead, remedy, sentences
from hookline.services.explain.model import DeliveryHistory, MessageHistory, counted, word
from hookline.services.explain.next_step import NextStep, current_state, held_by, next_step_texts, next_steps
from hookline.services.explain.reader import MAX_ATTEMPTS, MAX_DETAILED, MAX_EVENTS, read
from hookline.services.explain.times import Happening, Part, Phase, Stretch, happenings, holds, phases, stretches
