"""Numbers that both engines agree on."""

SCHEMA_VERSION = 1

MAX_DIGITS = 18  # of a number that every engine can hold
LAST_NUMBER = 10**MAX_DIGITS

STEP = 1000  # rows that one step of a task looks at
COUNTED = 10_000  # rows that are looked at to tell how many a task will find
COUNTED_DEAD = 500_000  # dead letters, which need not be looked at one by one
MAX_WAITING = 10_000  # deliveries, or dead letters, that are counted where a page tells of them
MAX_LISTED = 1_000  # those of each lane, where it lists dozens
COUNTING = 50.0  # times as long as the counting of depths took, they are given again: it takes 2 % of the time at most
MAX_RUNNING = 20  # tasks of one application at a time
MAX_ATTEMPTS = 500  # of a dead letter's history that are shown
TOP_APPLICATIONS = 10

IDLE = 24 * 3600.0  # seconds after which a session that nobody uses is over

FAR_LEASE = 7200.0  # seconds: nobody leases for longer, so a lease that ends later was made by a clock that was wrong
