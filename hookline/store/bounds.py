"""Limits that both engines use."""

SCHEMA_VERSION = 2

MAX_DIGITS = 18  # maximum digits of an integer that both engines can store
LAST_NUMBER = 10**MAX_DIGITS

STEP = 1000  # maximum rows that one step of a task reads
COUNTED = 10_000  # maximum rows that are read to estimate the size of a task
# Maximum dead letters that are counted for the size of a task. It is higher than `COUNTED`, because the database
# counts them and returns only their number.
COUNTED_DEAD = 500_000
MAX_WAITING = 10_000  # maximum open deliveries or dead letters that are counted for one page
MAX_LISTED = 1_000  # maximum open deliveries or dead letters that are counted per lane in a list of lanes
# If it took `s` seconds to count the open deliveries, dead letters and outbox rows, the result is cached for at least
# `COUNTING * s` seconds. So counting uses at most 2 % of the time.
COUNTING = 50.0
MAX_RUNNING = 20  # maximum running tasks of one application
MAX_ATTEMPTS = 500  # maximum attempts that are returned for a dead letter
TOP_APPLICATIONS = 10

# The transaction that records results also pauses endpoints with too many dead letters in a day, if the limit is at
# most `MAX_PAUSE_CHECK`. For this it reads at most about `PAUSE_CHECK_ROWS` times as many dead letters as the limit.
# The sweep checks higher limits.
MAX_PAUSE_CHECK, PAUSE_CHECK_ROWS = 1_000, 4

IDLE = 24 * 3600.0  # seconds without use after which a session ends

# Maximum seconds of a lease. A lease that ends more seconds than this from now was made while the clock was wrong.
FAR_LEASE = 7200.0
