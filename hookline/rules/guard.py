"""Protection against requests to private networks (SSRF). This module makes no DNS queries.

There are two checks. `Guard.check_url` checks a URL when an endpoint is saved, and returns its normalized form, which
every parser reads in the same way. `Guard.allows` checks the IP address at every connect, so that a DNS name that
changes its address between two queries (DNS rebinding) cannot get around the guard.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, collapse_addresses, ip_address
from urllib.parse import quote

from hookline.errors import BlockedAddress, ConfigError, InvalidInput

Network = IPv4Network | IPv6Network

MAX_URL = 8000  # RFC 9110 recommends that every server supports URIs of at least this length
MAX_HOST = 253
MAX_HEADERS = 50
MAX_HEADER_NAME = 128
MAX_HEADERS_SIZE = 8192

# ── addresses ─────────────────────────────────────────────────────────────────────────────────────────────────────
# All networks in the IANA special-purpose registries, even those that are globally reachable: no webhook goes there.

_DENIED_V4 = (
    "0.0.0.0/8",  # "this network"; 0.0.0.0 reaches the loopback interface
    "10.0.0.0/8",  # private
    "100.64.0.0/10",  # carrier-grade NAT; 100.100.100.200 is Alibaba's metadata service
    "127.0.0.0/8",  # loopback
    "168.63.129.16/32",  # Azure's wire server: a public address that is reachable only from inside Azure
    "169.254.0.0/16",  # link-local; 169.254.169.254 and 169.254.170.2 are metadata services
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # protocol assignments; 192.0.0.192 is Oracle's metadata service
    "192.0.2.0/24",  # documentation
    "192.31.196.0/24",  # AS112
    "192.52.193.0/24",  # automatic multicast tunnels
    "192.88.99.0/24",  # 6to4 relays
    "192.168.0.0/16",  # private
    "192.175.48.0/24",  # AS112
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved; 255.255.255.255 is broadcast
)
_DENIED_V6 = (
    "::/3",  # not global unicast; contains the next nine networks
    "::/128",  # unspecified address; reaches the loopback interface
    "::1/128",  # loopback
    "::/96",  # IPv4-compatible
    "::ffff:0:0/96",  # IPv4-mapped: connects over IPv4
    "::ffff:0:0:0/96",  # IPv4-translated
    "64:ff9b::/96",  # NAT64
    "64:ff9b:1::/48",  # NAT64, local use
    "100::/64",  # discard-only addresses
    "100:0:0:1::/64",  # dummy prefix
    "2001::/23",  # protocol assignments: Teredo 2001::/32, benchmarks 2001:2::/48, ORCHID 2001:10::/28, 2001:20::/28
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4
    "2620:4f:8000::/48",  # AS112
    "3ffe::/16",  # the former 6bone
    "3fff::/20",  # documentation
    "4000::/2",  # not global unicast; contains 5f00::/16
    "5f00::/16",  # segment routing
    "8000::/1",  # not global unicast; contains the networks below
    "fc00::/7",  # private; fd00:ec2::254 and fd20:ce::254 are metadata services
    "fe80::/10",  # link-local
    "fec0::/10",  # site-local
    "ff00::/8",  # multicast
)
_LOOPBACKS = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
_METADATA = int(IPv4Address("169.254.169.254"))
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")
_LOW = 0xFFFF_FFFF


class _Ranges:
    """A set of networks of one IP version, as sorted number ranges. Membership is tested by bisection."""

    def __init__(self, networks: Iterable[Network]) -> None:
        merged = list(collapse_addresses(networks))  # type: ignore[type-var]  # all have the same version
        self._starts = [int(net[0]) for net in merged]
        self._ends = [int(net[-1]) for net in merged]

    def __contains__(self, value: int) -> bool:
        at = bisect_right(self._starts, value) - 1
        return at >= 0 and value <= self._ends[at]


_SPECIAL_V4 = _Ranges(map(IPv4Network, _DENIED_V4))
_SPECIAL_V6 = _Ranges(map(IPv6Network, _DENIED_V6))


def _embedded(value: int) -> tuple[int, ...]:
    """Return the IPv4 addresses that an IPv6 address reaches through a translator or tunnel."""
    low = value & _LOW
    match value >> 32:
        case 0:  # IPv4-compatible, except `::` and `::1`
            return (low,) if value > 1 else ()
        case 0xFFFF | 0xFFFF_0000 | 0x0064_FF9B_0000_0000_0000_0000:  # IPv4-mapped, IPv4-translated, NAT64
            return (low,)
    if value >> 80 == 0x0064_FF9B_0001:  # NAT64 for local use, with a /96 prefix: see `Guard.__init__`
        return (low,)
    if value >> 112 == 0x2002:  # 6to4
        return (value >> 80 & _LOW,)
    if value >> 96 == 0x2001_0000:  # Teredo: the server's address, and the client's address with all bits inverted
        return (value >> 64 & _LOW, ~value & _LOW)
    if value >> 32 & 0xFDFF_FFFF == 0x5EFE:  # ISATAP, under any prefix
        return (low,)
    return ()


# ── names and ports ───────────────────────────────────────────────────────────────────────────────────────────────
# Each entry covers the name itself and all of its subdomains.

_LOOPBACK_NAMES = frozenset(
    {"localhost", "localdomain", "localhost4", "localhost6", "localdomain4", "localdomain6", "ip6-localhost"}
    | {"ip6-loopback", "localtest.me", "lvh.me", "vcap.me", "lacolhost.com", "localho.st"}
)
_METADATA_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "metadata.azure.internal", "metadata.tencentyun.com"}
    | {"instance-data", "instance-data.ec2.internal", "metadata.packet.net", "metadata.platformequinix.com"}
)
_PRIVATE_NAMES = frozenset(
    {"local", "internal", "intranet", "private", "corp", "home", "lan", "home.arpa", "svc", "consul", "localnet"}
)

# Ports that browsers refuse ("bad ports" of the WHATWG Fetch standard): an HTTP request could attack other protocols
# there.
_BAD_PORTS = frozenset(
    {0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109}
    | {110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530}
    | {531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190}
    | {5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080}
)
# Ports of services in private networks. All are below 32768, because kernels assign higher ports to any program.
_INSIDE_PORTS = frozenset({
    445, 873, 3260,  # files: SMB, rsync, iSCSI
    1080, 3128, 8009,  # proxies: SOCKS, Squid, AJP
    3389, 5900, 5901, 5985, 5986,  # desktops and shells: RDP, VNC, WinRM
    1433, 1434, 1521, 3050, 3306, 5432, 5433, 6432, 26257,  # SQL Server, Oracle, Firebird, MySQL, PostgreSQL, CockroachDB
    6379, 6380, 11211, 16379, 26379,  # Redis and its sentinels, memcached
    5984, 7000, 7001, 7199, 7473, 7474, 7687, 8086, 8123, 8529, 9042, 9160, 9200, 9300,  # CouchDB, Cassandra, Neo4j, ...
    27017, 27018, 27019, 28015,  # MongoDB, RethinkDB
    1883, 4222, 4369, 5671, 5672, 8883, 9092, 9093, 9094, 15672, 25672,  # queues: MQTT, NATS, RabbitMQ, Kafka
    2181, 2375, 2376, 2379, 2380, 6443, 8300, 8301, 8302, 8500, 8501, 8600, 10250, 10255,  # ZooKeeper, Docker, etcd, Consul
})  # fmt: skip
REFUSED_PORTS = _BAD_PORTS | _INSIDE_PORTS

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Guard:
    """Refuses special-purpose addresses and `REFUSED_PORTS`, except the networks in `allow` and the ports in
    `allow_ports`."""

    def __init__(self, allow: Sequence[Network] = (), allow_ports: Iterable[int] = ()) -> None:
        for net in allow:
            # The length of a NAT64 prefix decides which bits hold the IPv4 address. Only with /96 are they the last 32
            # bits.
            if net.version == 6 and net.prefixlen < 96 and net.subnet_of(_NAT64_LOCAL):
                raise ConfigError(f"{net} is NAT64: allow the translator's own /96 prefix")
        self._allow_v4 = _Ranges(net for net in allow if net.version == 4)
        self._allow_v6 = _Ranges(net for net in allow if net.version == 6)
        self._opens_any = bool(allow)
        self._opens_loopback = any(
            net.version == loopback.version and net.overlaps(loopback) for net in allow for loopback in _LOOPBACKS
        )
        self._ports = (REFUSED_PORTS - frozenset(allow_ports)) | {0}
        self._verdicts = lru_cache(maxsize=8192)(self._judge)

    def allows(self, address: str, port: int = 443) -> bool:
        """Return whether Hookline may connect to this IP address and port. False for text that is not an IP
        address."""
        return port not in self._ports and self._verdicts(address)

    def check_url(self, url: str) -> str:
        """Return the normalized URL, which is stored and called. Raise `InvalidInput` or `BlockedAddress` if it is
        refused."""
        _check_characters(url)
        scheme, authority, target = _split(url)
        host, port = _split_authority(authority, _DEFAULT_PORTS[scheme])
        if port in self._ports:
            raise BlockedAddress(f"port {port} is not for webhooks; HOOKLINE_ALLOW_PORTS can allow it", field="url")
        origin = f"{scheme}://{self._check_host(host)}"
        if port != _DEFAULT_PORTS[scheme]:
            origin += f":{port}"
        checked = origin + _encode_target(target)
        if len(checked) > MAX_URL:
            raise InvalidInput(f"longer than {MAX_URL} characters", field="url")
        return checked

    def _judge(self, address: str) -> bool:
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        return self._allows_v4(int(parsed)) if parsed.version == 4 else self._allows_v6(int(parsed))

    def _allows_v4(self, value: int) -> bool:
        return value not in _SPECIAL_V4 or value in self._allow_v4

    def _allows_v6(self, value: int) -> bool:
        """Check an IPv6 address and the IPv4 addresses in it. If `allow` has a NAT64 prefix, private IPv4 addresses
        behind that prefix are still refused, unless `allow` has them too."""
        if value in _SPECIAL_V6 and value not in self._allow_v6:
            return False
        return all(self._allows_v4(inner) for inner in _embedded(value))

    def _check_host(self, host: str) -> str:
        if host.startswith("["):
            return f"[{self._check_literal(_ipv6(host))}]"
        name = _ascii_name(host)
        literal = _ipv4(name)
        if literal is not None:
            return self._check_literal(literal)
        self._check_name(name)
        return name

    def _check_literal(self, address: IPv4Address | IPv6Address) -> str:
        text = str(address)
        if not self.allows(text):
            raise BlockedAddress(f"the address {text} is not public; HOOKLINE_ALLOW_NETS can allow it", field="url")
        return text

    def _check_name(self, name: str) -> None:
        labels = name.split(".")
        tails = {".".join(labels[start:]) for start in range(len(labels))}
        if tails & _LOOPBACK_NAMES:
            allowed = self._opens_loopback
        elif tails & _METADATA_NAMES:
            allowed = _METADATA in self._allow_v4
        elif tails & _PRIVATE_NAMES or len(labels) == 1:
            # If any network is allowed, accept the name: its address may be in that network. `allows` checks the
            # address at every connect.
            allowed = self._opens_any
        else:
            return
        if not allowed:
            raise BlockedAddress(f"{name!r} is a name inside a private network; see HOOKLINE_ALLOW_NETS", field="url")


# ── URL syntax ────────────────────────────────────────────────────────────────────────────────────────────────────

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?]+)(?P<target>.*)", re.I | re.A)
_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]+)(?P<port>:[0-9]{1,5})?")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
# Unicode categories of control, formatting, surrogate, private, unassigned and space characters.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})


def _check_characters(url: str) -> None:
    if len(url) > MAX_URL:
        raise InvalidInput(f"longer than {MAX_URL} characters", field="url")
    for letter in url:
        if unicodedata.category(letter) in _UNSEEN:
            raise InvalidInput(f"has the character U+{ord(letter):04X}; give it percent-encoded", field="url")
    if "\\" in url:  # libcurl treats it as part of the host, browsers treat it as a slash
        raise InvalidInput("has a backslash", field="url")
    if "#" in url:
        raise InvalidInput("has a fragment (#...), which is never sent", field="url")


def _split(url: str) -> tuple[str, str, str]:
    found = _URL.fullmatch(url)
    scheme = found["scheme"].lower() if found else ""
    if found is None or scheme not in _DEFAULT_PORTS:
        raise InvalidInput("must be absolute and begin with https:// or http://", field="url")
    return scheme, found["authority"], found["target"]


def _split_authority(authority: str, default_port: int) -> tuple[str, int]:
    if "@" in authority:
        raise InvalidInput("must not have a user or password; send credentials in a header", field="url")
    if "%" in authority:
        raise InvalidInput("must not have percent-encoding or a zone in its host", field="url")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise InvalidInput(f"{authority!r} is not a host with an optional port", field="url")
    port = int(found["port"][1:]) if found["port"] else default_port
    if port > 65535:
        raise InvalidInput(f"port {port} is above 65535", field="url")
    return found["host"], port


def _ipv6(host: str) -> IPv6Address:
    try:
        return IPv6Address(host[1:-1])
    except ValueError:
        raise InvalidInput(f"{host!r} is not an IPv6 address", field="url") from None


def _ascii_name(host: str) -> str:
    """Return the host name in lower case ASCII, without a final dot. All URL parsers read such a name in the same
    way."""
    import idna  # imported here because it loads a large table that most names do not need

    if len(host) > MAX_HOST + 1:
        raise InvalidInput(f"the host is longer than {MAX_HOST} characters", field="url")
    try:
        name = host.lower() if host.isascii() else idna.encode(host, uts46=True, std3_rules=True).decode("ascii")
    except UnicodeError:
        raise InvalidInput(f"{host!r} is not an internationalised host name; try its xn-- form", field="url") from None
    name = name.removesuffix(".")
    if len(name) > MAX_HOST or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise InvalidInput(f"{host!r} is not a host name", field="url")
    return name


def _ipv4(name: str) -> IPv4Address | None:
    """Parse an IPv4 address as browsers and libcurl do: one to four decimal, octal or hexadecimal numbers.

    The last number fills the remaining bytes. Return None if the last label is not a number: then the host is a name.
    Otherwise raise `InvalidInput` if the host is not a valid address.
    """
    labels = name.split(".")
    if not _NUMBER.fullmatch(labels[-1]):
        return None
    try:
        *heads, last = (_number(label) for label in labels)
    except ValueError:
        raise InvalidInput(f"{name!r} is not an IPv4 address", field="url") from None
    if len(heads) > 3 or any(head > 255 for head in heads) or last >= 256 ** (4 - len(heads)):
        raise InvalidInput(f"{name!r} is not an IPv4 address", field="url")
    for place, head in enumerate(heads):
        last += head << 8 * (3 - place)
    return IPv4Address(last)


def _number(label: str) -> int:
    if not _NUMBER.fullmatch(label):
        raise ValueError(label)
    if label.startswith("0x"):
        return int(label[2:] or "0", 16)
    return int(label, 8 if label.startswith("0") else 10)


def _encode_target(target: str) -> str:
    """Return path and query unchanged, except that characters not allowed in a request line are percent-encoded."""
    if _STRAY_PERCENT.search(target):
        raise InvalidInput("has a % that two hexadecimal digits do not follow", field="url")
    if not target.startswith("/"):
        target = "/" + target
    return quote(target, safe="/?%:@!$&'()*+,;=-._~[]|^")


# ── custom headers ────────────────────────────────────────────────────────────────────────────────────────────────

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Bytes above 127 are refused because frameworks decode them as Latin-1 or as UTF-8. Tabs are refused because some
# proxies fold header lines at them.
_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")
_REFUSED_HEADERS = frozenset(
    {"host", "user-agent", "content-length", "content-type", "content-encoding", "accept-encoding", "expect", "date"}
    | {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings", "via"}
    | {"cookie", "cookie2", "set-cookie", "metadata", "metadata-flavor"}  # the last two allow access to cloud metadata
    | {"stripe-signature", "x-hub-signature", "x-hub-signature-256", "x-github-delivery", "signature"}
)
_REFUSED_PREFIXES = ("webhook-", "svix-", "hookline-", "x-hookline-", "proxy-", "sec-", "x-aws-", "x-amz-", "x-goog")


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise `InvalidInput` unless an endpoint's custom headers can be sent unchanged and do not alter the request
    itself."""
    if len(headers) > MAX_HEADERS:
        raise InvalidInput(f"more than {MAX_HEADERS}", field="headers")
    if sum(len(name) + len(value) + 4 for name, value in headers.items()) > MAX_HEADERS_SIZE:
        raise InvalidInput(f"more than {MAX_HEADERS_SIZE} bytes in all", field="headers")
    seen: set[str] = set()
    for name, value in headers.items():
        _check_header(name, value)
        if name.lower() in seen:
            raise InvalidInput(f"{name!r} is given twice", field="headers")
        seen.add(name.lower())


def _check_header(name: str, value: str) -> None:
    """Check one header. Error messages never contain the value, because it may be a secret."""
    if len(name) > MAX_HEADER_NAME or not _TOKEN.fullmatch(name):
        raise InvalidInput(f"{name[:MAX_HEADER_NAME]!r} is not a header name", field="headers")
    if name.lower() in _REFUSED_HEADERS or name.lower().startswith(_REFUSED_PREFIXES):
        raise InvalidInput(f"{name!r} is set by Hookline or by the connection", field="headers")
    if not _VALUE.fullmatch(value):
        raise InvalidInput(
            f"the value of {name!r} must be printable ASCII, not empty, without outer spaces", field="headers"
        )


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
