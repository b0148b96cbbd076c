#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Embed: converts a file to a C array of 8-byte words, because the driver requires aligned fat binaries, and its size.
import struct
import sys


def main():
    source, name, target = sys.argv[1:4]
    with open(source, "rb") as file:
        data = file.read()
    padded = data + bytes(-len(data) % 8)
    words = struct.unpack("<%dQ" % (len(padded) // 8), padded)
    with open(target, "w", encoding="utf-8") as out:
        out.write("#include <stddef.h>\n")
        out.write("/* accessed as bytes through the alias %s */\n" % name)
        out.write("static const unsigned long long words[] = {\n")
        for start in range(0, len(words), 8):
            out.write("".join("0x%xu," % word for word in words[start : start + 8]) + "\n")
        out.write("};\n")
        out.write('extern const unsigned char %s[%d] __attribute__((alias("words")));\n' % (name, len(data)))
        out.write("extern const size_t %s_size;\nconst size_t %s_size = %d;\n" % (name, name, len(data)))


if __name__ == "__main__":
    main()
