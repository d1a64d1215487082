# Prints "ADDRESS is_global" for a grid of addresses: the borders of every special prefix, and random ones around them.
# test_address.c compares. A second implementation looks at ours.
import ipaddress
import random

random.seed(20)
V4 = """0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24
224.0.0.0/4 240.0.0.0/4 255.255.255.255/32 168.63.129.16/32 8.8.8.0/24""".split()
V6 = """::/128 ::1/128 ::/96 ::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/23 2001::/32 2001:2::/48
2001:10::/28 2001:20::/28 2001:db8::/32 2002::/16 2000::/3 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8
2606:4700::/32 2a00::/16 4000::/3 fd00:ec2::254/128""".split()


def around(net):
    first, last = int(net.network_address), int(net.broadcast_address)
    top = 2**net.max_prefixlen - 1
    yield from (n for n in (first - 1, first, first + 1, last - 1, last, last + 1) if 0 <= n <= top)
    for _ in range(40):
        yield random.randint(first, last)


def grid():
    for text in V4:
        yield from (ipaddress.IPv4Address(n) for n in around(ipaddress.IPv4Network(text)))
    for high in range(65536):
        yield ipaddress.IPv4Address(high << 16 | random.getrandbits(16))
    for text in V6:
        yield from (ipaddress.IPv6Address(n) for n in around(ipaddress.IPv6Network(text)))
    for high in range(0, 65536, 16):
        yield ipaddress.IPv6Address(high << 112 | random.getrandbits(112))


for address in grid():
    print(address, int(address.is_global))
