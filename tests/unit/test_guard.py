"""No saved URL and no dialled address leads into a private network, however it is spelled."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit

import pycurl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hookline.errors import BlockedAddress, ConfigError, InvalidInput
from hookline.rules.guard import _DENIED_V4, _DENIED_V6, MAX_HEADERS_SIZE, MAX_URL, Guard, check_headers
from hookline.rules.redaction import is_sensitive

GUARD = Guard()
REFUSED = (BlockedAddress, InvalidInput)


def listed(section: str) -> list[str]:
    lines = (Path(__file__).parents[1] / "data" / "denied-urls.txt").read_text(encoding="utf-8").splitlines()
    begin = lines.index(f"[{section}]") + 1
    end = next((at for at in range(begin, len(lines)) if lines[at] in ("[saved]", "[dialled]")), len(lines))
    return [line for line in lines[begin:end] if line and not line.startswith("#")]


def refused(url: str, guard: Guard = GUARD) -> bool:
    try:
        guard.check_url(url)
    except REFUSED:
        return True
    return False


def host_of(url: str) -> str:
    host = urlsplit(url).hostname
    assert host is not None
    return host


def test_the_list_is_long() -> None:
    assert len(listed("saved")) > 300
    assert len(listed("dialled")) > 15


@pytest.mark.parametrize("url", listed("saved"))
def test_is_refused_when_saved(url: str) -> None:
    with pytest.raises(REFUSED):
        GUARD.check_url(url)


@pytest.mark.parametrize("line", listed("dialled"))
def test_is_saved_but_not_dialled(line: str) -> None:
    url, address = line.split(" -> ")
    GUARD.check_url(url)
    assert not GUARD.allows(address)


UNSEEN = ["\x00", "\t", "\n", "\r", "\r\n", "\x0b", "\x1f", " ", "\x7f", "\x85", "\xa0", "\xad", "\u200b", "\u200d"]
UNSEEN += ["\u2028", "\u202e", "\u3000", "\ufeff", "\ud800", "\ue000", "\\"]


@pytest.mark.parametrize("letter", UNSEEN)
@pytest.mark.parametrize(
    "template", ["{}http://example.com/", "ht{}tp://example.com/", "http:/{}/example.com/", "http://{}example.com/"]
)
def test_unseen_characters_are_refused_before_the_path(letter: str, template: str) -> None:
    assert refused(template.format(letter))


@pytest.mark.parametrize("letter", UNSEEN)
@pytest.mark.parametrize(
    "template", ["http://exam{}ple.com/", "http://example.com{}/", "http://example.com/{}", "http://example.com/?a={}b"]
)
def test_unseen_characters_are_refused_from_the_host_on(letter: str, template: str) -> None:
    assert refused(template.format(letter))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://example.com", "https://example.com/"),
        ("https://example.com/", "https://example.com/"),
        ("HTTPS://Example.COM/Hook", "https://example.com/Hook"),
        ("https://example.com.", "https://example.com/"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("http://example.com:80/a", "http://example.com/a"),
        ("http://example.com:443/a", "http://example.com:443/a"),
        ("https://example.com:08443/a", "https://example.com:8443/a"),
        ("https://example.com?token=x", "https://example.com/?token=x"),
        ("https://example.com/a?b=c&d[]=e|f", "https://example.com/a?b=c&d[]=e|f"),
        ("https://example.com/@user/~x/a:b;c=d", "https://example.com/@user/~x/a:b;c=d"),
        ("https://example.com/?next=http://127.0.0.1/", "https://example.com/?next=http://127.0.0.1/"),
        ("https://example.com/caf%C3%A9%2Fx", "https://example.com/caf%C3%A9%2Fx"),
        ("https://example.com/caf%c3%a9", "https://example.com/caf%c3%a9"),
        ("https://example.com/café?q=ü", "https://example.com/caf%C3%A9?q=%C3%BC"),
        ('https://example.com/{id}"<x>`', "https://example.com/%7Bid%7D%22%3Cx%3E%60"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://BÜCHER.example/", "https://xn--bcher-kva.example/"),
        ("https://faß.de/", "https://xn--fa-hia.de/"),
        ("https://日本語。jp/", "https://xn--wgv71a119e.jp/"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
        ("https://xn--i-7iq.ws/", "https://xn--i-7iq.ws/"),
        ("https://my_service.example.com/", "https://my_service.example.com/"),
        ("https://r3---sn-abc.example.com/", "https://r3---sn-abc.example.com/"),
        ("https://0x7f.example.com/", "https://0x7f.example.com/"),
        ("https://127.0.0.1.example.com/", "https://127.0.0.1.example.com/"),
        ("https://notlocalhost.com/", "https://notlocalhost.com/"),
        ("https://localhost.example.com/", "https://localhost.example.com/"),
        ("https://internal.example.com/", "https://internal.example.com/"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://0x08080808/", "https://8.8.8.8/"),
        ("https://8.8.2056/", "https://8.8.8.8/"),
        ("https://1.2.3.0x/", "https://1.2.3.0/"),
        ("https://[2606:4700:4700::1111]/", "https://[2606:4700:4700::1111]/"),
        ("https://[2606:4700:4700:0:0:0:0:1111]:8443/", "https://[2606:4700:4700::1111]:8443/"),
        ("https://hooks.test/", "https://hooks.test/"),
        ("http://example.com:8080/", "http://example.com:8080/"),
        ("http://example.com:65535/", "http://example.com:65535/"),
    ],
)
def test_legitimate_urls_are_kept_in_one_form(given: str, kept: str) -> None:
    assert GUARD.check_url(given) == kept
    assert GUARD.check_url(kept) == kept


def test_length_is_bounded_also_after_encoding() -> None:
    assert not refused("https://example.com/" + "a" * (MAX_URL - 20))
    assert refused("https://example.com/" + "a" * (MAX_URL - 19))
    assert refused("https://example.com/" + "é" * (MAX_URL // 4))
    assert not refused(f"https://{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}/")
    assert refused(f"https://{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 62}/")
    assert refused(f"https://{'a' * 64}.example/")


def test_errors_show_neither_credentials_nor_query() -> None:
    for url in (
        "https://user:hunter2@example.com/",
        "http://127.0.0.1/?token=hunter2",
        "https://example.com/?hunter2%",
    ):
        with pytest.raises(REFUSED) as caught:
            GUARD.check_url(url)
        assert "hunter2" not in str(caught.value)


# ── properties of the spelling ──

ALPHABET = "abz019.-_:/?#@%[]\\ \t\n0x7fLOCALHOSTé。①｡ﬀ㎏"
URLISH = st.one_of(
    st.builds("http://{}/{}".format, st.text(ALPHABET, max_size=20), st.text(ALPHABET, max_size=8)),
    st.builds("{}://{}".format, st.sampled_from(["http", "https", "HTTP"]), st.text(max_size=20)),
    st.builds(
        "https://{}.{}:{}/?{}".format, st.from_regex(r"\A[a-z0-9_-]{1,9}\Z"), *[st.text("abc.09x", max_size=6)] * 3
    ),
    st.text(max_size=30),
)


@settings(deadline=None)
@given(URLISH)
@example("http://1.2.3.0x/")
@example("https://EXAMPLE.com.:443?a=é")
def test_urllib_and_libcurl_read_the_host_that_was_judged(url: str) -> None:
    if refused(url):
        return
    checked = GUARD.check_url(url)
    assert checked.isascii()
    assert GUARD.check_url(checked) == checked
    parts, curl = urlsplit(checked), pycurl.CurlUrl(checked)
    assert curl.host is not None
    assert curl.host.strip("[]") == parts.hostname
    assert curl.scheme == parts.scheme
    assert curl.port == (None if parts.port is None else str(parts.port))
    assert (curl.user, curl.password, curl.fragment, curl.zoneid) == (None, None, None, None)
    assert (parts.username, parts.password, parts.fragment) == (None, None, "")
    assert pycurl.CurlUrl(f"http://{curl.host}/").host == curl.host


@settings(deadline=None)
@given(URLISH)
def test_a_saved_literal_is_one_that_may_be_dialled(url: str) -> None:
    if refused(url):
        return
    host = host_of(GUARD.check_url(url))
    try:
        ip_address(host)
    except ValueError:
        return
    assert GUARD.allows(host)


# The bad ports of the Fetch standard, and ports of services that are common inside a network.
WEB = {80, 443, 3000, 4000, 5000, 8000, 8071, 8080, 8081, 8443, 8888, 9000, 9443}
SERVICES = {
    "ssh": 22, "smtp": 25, "dns": 53, "ldap": 389, "smb": 445, "rsync": 873, "socks": 1080, "sql server": 1433, "oracle": 1521,
    "zookeeper": 2181, "docker": 2375, "etcd": 2379, "squid": 3128, "mysql": 3306, "rdp": 3389, "nats": 4222, "postgresql": 5432,
    "amqp": 5672, "vnc": 5900, "couchdb": 5984, "winrm": 5985, "redis": 6379, "pgbouncer": 6432, "kubernetes": 6443,
    "ajp": 8009, "consul": 8500, "cassandra": 9042, "kafka": 9092, "elasticsearch": 9200, "kubelet": 10250, "memcached": 11211,
    "rabbitmq": 15672, "cockroachdb": 26257, "sentinel": 26379, "mongodb": 27017,
}  # fmt: skip


@pytest.mark.parametrize("service", SERVICES)
def test_ports_of_services_that_are_not_for_webhooks(service: str) -> None:
    url = f"https://example.com:{SERVICES[service]}/"
    with pytest.raises(BlockedAddress, match=f"port {SERVICES[service]} .*; HOOKLINE_ALLOW_PORTS can allow it"):
        GUARD.check_url(url)
    assert not GUARD.allows("93.184.216.34", SERVICES[service])
    opened = Guard(allow_ports=[SERVICES[service]])
    assert opened.check_url(url) == url
    assert opened.allows("93.184.216.34", SERVICES[service])


@settings(deadline=None)
@given(st.integers(0, 65535))
def test_a_port_is_judged_alike_when_it_is_saved_and_when_it_is_dialled(port: int) -> None:
    assert pycurl.CurlUrl(f"http://example.com:{port}/").port == str(port)
    assert refused(f"http://example.com:{port}/") is not GUARD.allows("93.184.216.34", port)


def test_which_ports_stay_open() -> None:
    """The ports that receivers use, and the range from which a kernel assigns ports."""
    open_ports = {port for port in range(65536) if GUARD.allows("93.184.216.34", port)}
    assert open_ports >= WEB
    assert open_ports.issuperset(range(32768, 65536))
    assert 65536 - len(open_ports) < 200
    assert not Guard(allow_ports=[0]).allows("93.184.216.34", 0)


@pytest.mark.parametrize(
    "spelling", ["example.com:06379", "EXAMPLE.com:6379", "[2606:4700::1111]:6379", "93.184.216.34:06379"]
)
def test_no_spelling_of_a_port_gets_past(spelling: str) -> None:
    assert refused(f"http://{spelling}/")


# ── addresses ──


def within(networks: tuple[str, ...]) -> st.SearchStrategy[int]:
    """A number inside one of the networks. Both ends are likely."""
    nets = [ip_network(net) for net in networks]
    return st.sampled_from(nets).flatmap(lambda net: st.integers(int(net[0]), int(net[-1])))


def notations_v4(value: int) -> list[str]:
    a, b, c, d = value.to_bytes(4)
    low24, low16 = value & 0xFFFFFF, value & 0xFFFF
    return [
        f"{a}.{b}.{c}.{d}",
        f"{a}.{b}.{c}.{d}.",
        f"{value}",
        f"{value:#x}",
        f"{value:#X}".replace("X", "x"),
        f"0X{value:08x}",
        f"0{value:o}",
        f"000{value:o}",
        f"{a}.{low24}",
        f"{a}.{b}.{low16}",
        f"{a:#x}.{b:#x}.{c:#x}.{d:#x}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"{a:#x}.0{b:o}.{low16}",
        f"{a}。{b}。{c}。{d}",
        f"{a}.{b}.{c}.{d}".translate({ord("0") + n: ord("０") + n for n in range(10)}),
        f"[::ffff:{a}.{b}.{c}.{d}]",
        f"[::ffff:{value >> 16:x}:{low16:x}]",
        f"[0:0:0:0:0:FFFF:{value >> 16:X}:{low16:X}]",
        f"[::{a}.{b}.{c}.{d}]",
        f"[::ffff:0:{a}.{b}.{c}.{d}]",
        f"[64:ff9b::{a}.{b}.{c}.{d}]",
        f"[64:ff9b:1::{value >> 16:x}:{low16:x}]",
        f"[2002:{value >> 16:x}:{low16:x}::1]",
        f"[2606:4700::5efe:{a}.{b}.{c}.{d}]",
    ]


@settings(deadline=None)
@given(within(_DENIED_V4))
def test_special_ipv4_is_refused_in_every_notation(value: int) -> None:
    assert not GUARD.allows(str(IPv4Address(value)))
    for host in notations_v4(value):
        assert refused(f"http://{host}/"), host
        assert refused(f"https://{host}:8443/x?y=z"), host


@settings(deadline=None)
@given(within(_DENIED_V6))
def test_special_ipv6_is_refused_in_every_notation(value: int) -> None:
    address = IPv6Address(value)
    for text in {str(address), address.exploded, address.exploded.upper()}:
        assert not GUARD.allows(text)
        assert refused(f"http://[{text}]/")


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_public_ipv4_is_dialled_and_tunnels_to_it_are_not(value: int) -> None:
    dotted = str(IPv4Address(value))
    if IPv4Address(value).is_global and not IPv4Address(value).is_multicast and not GUARD.allows(dotted):
        assert any(IPv4Address(value) in IPv4Network(net) for net in _DENIED_V4)
    if GUARD.allows(dotted):
        assert IPv4Address(value).is_global
        assert {host_of(GUARD.check_url(f"http://{host}/")) for host in notations_v4(value)[:15]} == {dotted}
        assert all(refused(f"http://{host}/") for host in notations_v4(value)[15:23])


@settings(deadline=None)
@given(st.integers(0, 2**128 - 1))
@example(int(IPv6Address("2606:4700:4700::1111")))
@example(int(IPv6Address("2a00:1450:4001:830::200e")))
@example(int(IPv6Address("2001:4860:4860::8888")))
@example(int(IPv6Address("2400:cb00::1")))
def test_only_global_unicast_ipv6_is_dialled(value: int) -> None:
    address = IPv6Address(value)
    special = any(address in IPv6Network(net) for net in _DENIED_V6)
    if GUARD.allows(str(address)):
        assert not special
        assert address.is_global
        assert address in IPv6Network("2000::/3")
    elif not special:
        assert value >> 32 & 0xFDFFFFFF == 0x5EFE


EDGES = [
    ("9.255.255.255", "10.0.0.0"),
    ("11.0.0.0", "10.255.255.255"),
    ("100.63.255.255", "100.64.0.0"),
    ("100.128.0.0", "100.127.255.255"),
    ("126.255.255.255", "127.0.0.0"),
    ("128.0.0.0", "127.255.255.255"),
    ("168.63.129.15", "168.63.129.16"),
    ("168.63.129.17", "168.63.129.16"),
    ("172.15.255.255", "172.16.0.0"),
    ("172.32.0.0", "172.31.255.255"),
    ("192.0.1.0", "192.0.0.255"),
    ("198.17.255.255", "198.18.0.0"),
    ("198.20.0.0", "198.19.255.255"),
    ("223.255.255.255", "224.0.0.0"),
    ("2001:200::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::"),
    ("2003::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("3fff:1000::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2000::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("3ffd:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3ffe::"),
]


@pytest.mark.parametrize(("outside", "inside"), EDGES)
def test_refused_ranges_end_exactly(outside: str, inside: str) -> None:
    assert GUARD.allows(outside)
    assert not GUARD.allows(inside)


@pytest.mark.parametrize(
    "text", ["", "example.com", "8.8.8", "0x08080808", "010.8.8.8", "8.8.8.8 ", "[2606:4700::1]", "１.1.1.1"]
)
def test_text_that_is_no_address_is_not_dialled(text: str) -> None:
    assert not GUARD.allows(text)


def test_a_scope_does_not_hide_an_address() -> None:
    assert not GUARD.allows("fe80::1%eth0")
    assert not GUARD.allows("::1%1")


# ── allowed networks ──


def nets(*texts: str) -> list[IPv4Network | IPv6Network]:
    return [ip_network(text) for text in texts]


def test_allowed_networks_open_addresses_and_literals() -> None:
    guard = Guard(nets("10.1.0.0/16", "fd12::/16"))
    assert guard.allows("10.1.2.3")
    assert guard.allows("fd12::9")
    assert not guard.allows("10.2.0.1")
    assert not guard.allows("fd13::9")
    assert not guard.allows("127.0.0.1")
    assert guard.check_url("http://10.1.2.3:8080/") == "http://10.1.2.3:8080/"
    assert guard.check_url("http://0xa010203/") == "http://10.1.2.3/"
    assert guard.check_url("http://[fd12::9]/") == "http://[fd12::9]/"
    assert refused("http://10.2.0.1/", guard)


def test_localhost_needs_the_loopback() -> None:
    private, loopback, loopback6 = Guard(nets("10.0.0.0/8")), Guard(nets("127.0.0.1/32")), Guard(nets("::1/128"))
    for name in ("localhost", "app.localhost", "app.localtest.me", "ip6-localhost"):
        assert refused(f"http://{name}:3000/", private)
        assert not refused(f"http://{name}:3000/", loopback)
        assert not refused(f"http://{name}:3000/", loopback6)
    assert refused("http://127.0.0.2/", loopback)


@pytest.mark.parametrize(
    "name", ["receiver", "receiver.internal", "printer.local", "api.default.svc", "host.docker.internal"]
)
def test_private_names_need_any_allowed_network(name: str) -> None:
    assert refused(f"http://{name}/")
    assert not refused(f"http://{name}/", Guard(nets("172.18.0.0/16")))


def test_metadata_names_need_the_metadata_address() -> None:
    for name in ("metadata.google.internal", "metadata", "instance-data"):
        assert refused(f"http://{name}/", Guard(nets("10.0.0.0/8", "127.0.0.0/8")))
        assert not refused(f"http://{name}/", Guard(nets("169.254.169.254/32")))


def test_an_allowed_network_leaves_ports_and_schemes_closed() -> None:
    guard = Guard(nets("0.0.0.0/0", "::/0"))
    assert guard.allows("127.0.0.1")
    assert guard.allows("::1")
    assert guard.allows("::ffff:127.0.0.1")
    assert refused("http://127.0.0.1:22/", guard)
    assert refused("ftp://127.0.0.1/", guard)
    assert refused("http://user@127.0.0.1/", guard)


@pytest.mark.parametrize("prefix", ["64:ff9b::/96", "64:ff9b:1:fffe::/96", "::ffff:0:0/96", "::ffff:0:0:0/96"])
def test_an_allowed_nat64_prefix_does_not_allow_private_targets(prefix: str) -> None:
    guard = Guard(nets(prefix))
    base = int(IPv6Network(prefix)[0])
    assert guard.allows(str(IPv6Address(base + int(IPv4Address("8.8.4.4")))))
    for inner in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0"):
        assert not guard.allows(str(IPv6Address(base + int(IPv4Address(inner)))))


def test_an_allowed_tunnel_does_not_allow_private_targets() -> None:
    guard = Guard(nets("2002::/16", "2001::/32", "::/96"))
    assert guard.allows("2002:808:808::1")
    assert not guard.allows("2002:7f00:1::1")
    flipped = int(IPv4Address("10.0.0.1")) ^ 0xFFFFFFFF
    teredo = int(IPv6Address("2001:0:808:808::"))
    assert not guard.allows(str(IPv6Address(teredo + flipped)))
    assert guard.allows(str(IPv6Address(teredo + (int(IPv4Address("9.9.9.9")) ^ 0xFFFFFFFF))))
    assert not guard.allows(str(IPv6Address(int(IPv6Address("2001:0:a00:1::")) + (0x09090909 ^ 0xFFFFFFFF))))
    assert guard.allows("::1")
    assert guard.allows("::8.8.8.8")
    assert not guard.allows("::10.0.0.1")


def test_a_local_translator_is_opened_by_its_own_prefix_only() -> None:
    with pytest.raises(ConfigError, match="/96"):
        Guard(nets("64:ff9b:1::/48"))


def test_judging_is_remembered_within_bounds() -> None:
    guard = Guard()
    for value in range(10_000):
        guard.allows(str(IPv4Address(0x08000000 + value)))
    assert guard.allows("8.0.0.1")


# ── headers ──


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer abc.def"},
        {"X-Api-Key": "a b  c", "x-tenant": "7"},
        {"X-Quote": "\"!#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"},
        {"!#$%&'*+-.^_`|~09azAZ": "odd but a token"},
        {f"X-{n}": str(n) for n in range(50)},
        {"Content-Language": "en", "Accept": "*/*", "Hostess": "x", "X-Webhook-Id": "x"},
    ],
)
def test_headers_that_may_be_sent(headers: dict[str, str]) -> None:
    check_headers(headers)


REFUSED_NAMES = [
    "Host",
    "host",
    "HOST",
    "Connection",
    "Keep-Alive",
    "Proxy-Authorization",
    "Proxy-Connection",
    "Proxy-Authenticate",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "HTTP2-Settings",
    "Content-Length",
    "Content-Type",
    "Content-Encoding",
    "Accept-Encoding",
    "Expect",
    "User-Agent",
    "Date",
    "Via",
    "Cookie",
    "Set-Cookie",
    "Webhook-Id",
    "webhook-timestamp",
    "WEBHOOK-SIGNATURE",
    "webhook-attempt",
    "webhook-anything",
    "svix-id",
    "svix-signature",
    "Stripe-Signature",
    "X-Hub-Signature",
    "X-Hub-Signature-256",
    "X-GitHub-Delivery",
    "Signature",
    "Hookline-Attempt",
    "Metadata-Flavor",
    "Metadata",
    "X-aws-ec2-metadata-token",
    "X-Google-Metadata-Request",
    "Sec-Fetch-Mode",
]


@pytest.mark.parametrize("name", REFUSED_NAMES)
def test_headers_that_are_not_the_customers(name: str) -> None:
    with pytest.raises(InvalidInput, match="set by Hookline"):
        check_headers({name: "x"})


@pytest.mark.parametrize(
    "name",
    ["", " ", "X Y", "X:", "X:Y", "X\r\nY", "X\n", "X\x00", "X\t", "Ünicode", "X;Y", "X(Y)", "X/Y", "X" * 129, "ｘ"],
)
def test_header_names_are_tokens(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_headers({name: "x"})


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        " a",
        "a ",
        "a\r\nX: b",
        "a\n b",
        "a\r",
        "a\x00",
        "a\tb",
        "a\x7f",
        "a\x1b",
        "caf\xe9",
        "a\x85b",
        "日",
        "a\u2028",
    ],
)
def test_header_values_are_printable(value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_headers({"X-Secret": value})
    assert "X-Secret" in str(caught.value)


def test_header_values_are_not_in_errors() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_headers({"Authorization": "hunter2\n"})
    assert "hunter2" not in str(caught.value)


def test_headers_are_bounded_in_number_size_and_case() -> None:
    with pytest.raises(InvalidInput, match="more than 50"):
        check_headers({f"X-{n}": str(n) for n in range(51)})
    with pytest.raises(InvalidInput, match="in all"):
        check_headers({"X-Big": "a" * MAX_HEADERS_SIZE})
    check_headers({"X-Big": "a" * (MAX_HEADERS_SIZE - 9)})
    with pytest.raises(InvalidInput, match="twice"):
        check_headers({"X-Key": "1", "x-key": "2"})


@settings(deadline=None)
@given(st.text(max_size=12), st.text(max_size=12))
def test_a_header_that_passes_is_one_line_that_libcurl_takes(name: str, value: str) -> None:
    try:
        check_headers({name: value})
    except InvalidInput:
        return
    line = f"{name}: {value}"
    assert line.isascii()
    assert line.isprintable()
    assert line.partition(": ") == (name, ": ", value)
    pycurl.Curl().setopt(pycurl.HTTPHEADER, [line])


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "X-Api-Key",
        "apikey",
        "X-Auth-Token",
        "x-client-secret",
        "Cookie",
        "X-Session-Id",
        "X-PIN",
        "x-jwt",
    ],
)
def test_headers_whose_values_are_not_shown(name: str) -> None:
    assert is_sensitive(name)


@pytest.mark.parametrize("name", ["X-Tenant", "X-Region", "Accept", "X-Environment", "X-Request-Source", "x-spinner"])
def test_harmless_headers(name: str) -> None:
    assert not is_sensitive(name)
