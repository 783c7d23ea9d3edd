#!/usr/bin/env python3
"""Makes a bearer token for ptod: appends its hash to a file of tokens and prints the token."""

import argparse
import datetime
import hashlib
import hmac
import os
import re
import secrets
import sys

ROLES = ("user", "reader", "operator")


def fail(message):
    sys.exit(f"make_token.py: {message}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="the principal is token-NAME: 1 to 57 of a-z 0-9 -")
    parser.add_argument("--file", required=True, help="the daemon's file of tokens")
    parser.add_argument("--days", type=float, help="how long it is valid; default: for ever")
    parser.add_argument("--roles", default="user", help="some of user,reader,operator")
    arguments = parser.parse_args()
    if not re.fullmatch("[a-z0-9-]{1,57}", arguments.name):
        fail("a name is 1 to 57 of a-z 0-9 -")
    for role in arguments.roles.split(","):
        if role not in ROLES:
            fail(f"'{role}' is no role: expected some of {','.join(ROLES)}")
    if os.path.exists(arguments.file):
        with open(arguments.file, encoding="utf-8") as lines:
            if any(line.split()[:1] == [arguments.name] for line in lines):
                fail(f"{arguments.file} has a token '{arguments.name}' already")
    expires = "never"
    if arguments.days is not None:
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(arguments.days)
        expires = end.strftime("%Y-%m-%dT%H:%M:%SZ")
    secret = secrets.token_urlsafe(32)
    salt = secrets.token_bytes(16)
    digest = hmac.new(salt, secret.encode(), hashlib.sha256).hexdigest()
    descriptor = os.open(arguments.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "a", encoding="utf-8") as out:
        out.write(f"{arguments.name} {salt.hex()} {digest} {expires} {arguments.roles}\n")
    print(f"{arguments.name}.{secret}")


if __name__ == "__main__":
    main()
