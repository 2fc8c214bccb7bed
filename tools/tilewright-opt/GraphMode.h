//===- GraphMode.h - `tilewright-opt --graph=nests|groups|tile FILE.json` -*- C++ -*-===//
#pragma once

namespace tilewright {

/// Prints what becomes of a graph description up to the tile level. Errors go to stderr; 1 then.
int graphMain(int argc, char **argv);

} // namespace tilewright
