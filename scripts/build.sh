#!/usr/bin/env bash
# Configures if needed and builds: scripts/build.sh [PRESET [TARGET...]]
. "$(dirname "$0")/common.sh"
build "${@:-release}"
