#!/usr/bin/env bash
# Runs interop_test.js with the packages that `npm ci` has installed next to it in the source tree.
set -euo pipefail

here=$TEST_SRCDIR/$TEST_WORKSPACE/tests/interop
# The source tree, found through the runfiles' symbolic link.
source=$(dirname "$(realpath "$here/interop_test.js")")
export PTOD_ROOT=$TEST_SRCDIR/$TEST_WORKSPACE
export PTOD_NODE_MODULES=$source/node_modules
if [[ ! -d $PTOD_NODE_MODULES/@grpc/grpc-js ]]; then
  echo "there is no $PTOD_NODE_MODULES; run: npm ci --prefix tests/interop" >&2
  exit 1
fi
exec node --test "$here/interop_test.js"
