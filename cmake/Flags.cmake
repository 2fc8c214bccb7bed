# One flag set for all C++ of the project, so that rooms can share precompiled headers.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Assertions stay on in the dev preset. Line tables only: full debug information doubles the time to compile MLIR files.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -gline-tables-only")
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

# -fPIC everywhere, executables too: a precompiled header is refused where the level differs.
# No fused multiply-adds but those that are written: results must not depend on the compiler's choice.
add_compile_options(-fPIC -ffunction-sections -fdata-sections -ffp-contract=off -Wall -Wextra -Werror=return-type
                    -Wno-unused-parameter -fdiagnostics-color=auto)
add_link_options(-fuse-ld=lld -Wl,--gc-sections -Wl,--build-id=sha1)

if(TILEWRIGHT_SANITIZE)
  # vptr and function checks compare type information across libraries that are not instrumented (MLIR, torch).
  set(sanitize -fsanitize=${TILEWRIGHT_SANITIZE} -fno-omit-frame-pointer)
  if(TILEWRIGHT_SANITIZE MATCHES undefined)
    list(APPEND sanitize -fno-sanitize=vptr,function -fno-sanitize-recover=undefined)
  endif()
  add_compile_options(${sanitize})
  # Shared run-time library: one copy for the extension, our libraries and the Python process that preloads it.
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libclang_rt.asan-x86_64.so OUTPUT_VARIABLE library
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  get_filename_component(folder ${library} DIRECTORY)
  add_link_options(${sanitize} -shared-libsan -Wl,-rpath,${folder})
endif()
if(TILEWRIGHT_COVERAGE)
  add_compile_options(-fprofile-instr-generate -fcoverage-mapping)
  add_link_options(-fprofile-instr-generate)
endif()

find_program(TILEWRIGHT_CCACHE ccache)
if(TILEWRIGHT_CCACHE)
  # Precompiled headers carry time stamps unless told otherwise, and ccache refuses them unless told that this is fine.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${TILEWRIGHT_CCACHE})
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()
set(CMAKE_PCH_INSTANTIATE_TEMPLATES ON)

find_package(Threads REQUIRED)
