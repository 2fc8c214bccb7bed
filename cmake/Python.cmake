# The Python package as Python sees it: build/<preset>/python/tilewright has the libraries and links to the sources of
# python/tilewright, so that an edit needs no build. A folder beside it carries the entry points.

find_package(Python 3.11 EXACT COMPONENTS Interpreter Development.Module)

# Keeps the build's package folder in step with the sources, at every build.
add_custom_target(tilewright_package ALL
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}/python/tilewright -DPACKAGE=${TILEWRIGHT_PACKAGE_DIR}
          -DVERSION=${PROJECT_VERSION} -P ${PROJECT_SOURCE_DIR}/cmake/LinkPackage.cmake
  COMMENT "Linking the Python package" VERBATIM)
