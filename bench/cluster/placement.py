"""The home of an object as in docs/cluster.md, for nodes of equal weight: all that a client needs to avoid the hop."""

STRIPE_BYTES = 64 << 20
_MASK = (1 << 64) - 1
_PRIME_64_1, _PRIME_MX1, _PRIME_MX2 = 0x9E3779B185EBCA87, 0x165667919E3779F9, 0x9FB21C651E98DF25
# The beginning of XXH3's default secret.
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
)


def home(bucket, key, offset, ids):
    """Returns the highest-ranked node for the stripe that contains the byte at `offset`."""
    name = bucket.encode()
    path = xxh3(len(name).to_bytes(8, "little") + name + key.encode())
    place = path.to_bytes(8, "little") + (offset // STRIPE_BYTES).to_bytes(8, "little")
    # A tie would go to the lower id.
    return max(sorted(ids), key=lambda id: xxh3(place + xxh3(id.encode()).to_bytes(8, "little")))


def xxh3(data):
    """XXH3 of 64 bits without a seed, for the input lengths used here: 4 to 8 and 17 to 128 bytes."""
    length = len(data)
    if 4 <= length <= 8:
        word = _read(data, length - 4, 4) + (_read(data, 0, 4) << 32)
        return _strong_avalanche(word ^ _read(_SECRET, 8) ^ _read(_SECRET, 16), length)
    if not 17 <= length <= 128:
        raise ValueError(f"XXH3 of {length} bytes")

    total = length * _PRIME_64_1
    # From both ends towards the middle.
    for n in range((length - 1) // 32 + 1):
        total += _mix(data, 16 * n, 32 * n) + _mix(data, length - 16 * (n + 1), 32 * n + 16)
    return _avalanche(total & _MASK)


def _read(data, at, size=8):
    return int.from_bytes(data[at:at + size], "little")


def _mix(data, at, secret_at):
    product = (_read(data, at) ^ _read(_SECRET, secret_at)) * (_read(data, at + 8) ^ _read(_SECRET, secret_at + 8))
    return (product ^ product >> 64) & _MASK


def _avalanche(word):
    word ^= word >> 37
    word = word * _PRIME_MX1 & _MASK
    return word ^ word >> 32


def _strong_avalanche(word, length):
    word ^= _rotate(word, 49) ^ _rotate(word, 24)
    word = word * _PRIME_MX2 & _MASK
    word ^= (word >> 35) + length
    word = word * _PRIME_MX2 & _MASK
    return word ^ word >> 28


def _rotate(word, count):
    return (word << count | word >> 64 - count) & _MASK
