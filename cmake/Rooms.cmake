# A room is a folder of lib/ with its headers in include/tilewright. Sources are found by themselves, so that adding a
# file touches no CMake; a room without sources is skipped and so is whatever needs it.

# Where shared libraries and the Python package come together: one folder that can be put on PYTHONPATH.
set(TILEWRIGHT_PACKAGE_DIR ${PROJECT_BINARY_DIR}/python/tilewright)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
# Libraries find each other beside themselves, before and after installation. (CMake would pad the path with empty
# entries to change it at installation, and an empty entry means the working directory.)
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)

add_library(tilewright_headers INTERFACE)
target_include_directories(tilewright_headers INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)

# tilewright_sources(VAR): the room's own files, in folders too.
function(tilewright_sources var)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  set(${var} ${found} PARENT_SCOPE)
endfunction()

# tilewright_room(NAME [MLIR] LINKS targets...): a static library.
function(tilewright_room name)
  cmake_parse_arguments(arg "MLIR" "" "LINKS" ${ARGN})
  tilewright_sources(sources)
  if(NOT sources)
    message(STATUS "${name}: no sources yet")
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE tilewright_headers ${arg_LINKS})
    return()
  endif()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC tilewright_headers ${arg_LINKS})
  if(arg_MLIR)
    tilewright_use_mlir_pch(${name})
  endif()
endfunction()

# tilewright_shared_room(NAME LINKS targets...): a shared library in the package folder.
function(tilewright_shared_room name)
  cmake_parse_arguments(arg "" "" "LINKS;PRIVATE_LINKS;OBJECTS" ${ARGN})
  tilewright_sources(sources)
  if(NOT sources)
    message(STATUS "${name}: no sources yet")
    return()
  endif()
  add_library(${name} SHARED ${sources} ${arg_OBJECTS})
  target_link_libraries(${name} PUBLIC tilewright_headers ${arg_LINKS} PRIVATE ${arg_PRIVATE_LINKS})
  target_link_options(${name} PRIVATE -Wl,-Bsymbolic -Wl,-z,defs)
  set_target_properties(${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${TILEWRIGHT_PACKAGE_DIR}
    INSTALL_RPATH "$ORIGIN" DEFINE_SYMBOL "")
  install(TARGETS ${name} LIBRARY DESTINATION tilewright COMPONENT python)
endfunction()
