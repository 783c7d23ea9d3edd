#!/usr/bin/env python3
"""Makes the synchronous API from the asynchronous one: the same code without its awaits.

Usage: make_sync.py SOURCE DESTINATION [SOURCE DESTINATION ...]

Between `# asyncio only` and `# end` nothing is taken over; lines after `# threads only`, up to `#
end`, are comments in the source and code in the result.
"""

import re
import sys

_REPLACEMENTS = [
    (r"\basync (def|with|for) ", r"\1 "),
    (r"\bawait ", ""),
    (r"__(a)(enter|exit|iter|next)__", r"__\2__"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"_io\.Opening\[(\"?[\w.]+\"?)\]", r"\1"),
    (r"\bptod\._async\b", "ptod._sync"),
    (r"\bptod\.aio\b", "ptod"),
]
_ASYNC_ONLY = re.compile(r"^ *# asyncio only\n.*?^ *# end\n", re.MULTILINE | re.DOTALL)
_SYNC_ONLY = re.compile(r"^ *# threads only\n(.*?)^ *# end\n", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^( *)# ?", re.MULTILINE)


def make_sync(text: str) -> str:
    text = _ASYNC_ONLY.sub("", text)
    text = _SYNC_ONLY.sub(lambda match: _COMMENT.sub(r"\1", match.group(1)), text)
    for pattern, replacement in _REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    return "# Made by make_sync.py from ptod/_async. Change it there.\n" + text


def main(arguments):
    for source, destination in zip(arguments[::2], arguments[1::2]):
        with open(source, encoding="utf-8") as file:
            text = make_sync(file.read())
        with open(destination, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
