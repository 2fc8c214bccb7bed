# MLIR and LLVM 19 as static archives. lld keeps the symbol tables of all archives at hand, whatever their order, and takes
# only members that are used; so all archives are named at once and no list of dialects and dependencies is kept here.
# LLVM's own CMake targets are not used: they bring libz3, libxml2 and the shared libLLVM along.

set(TILEWRIGHT_LLVM_ROOT /usr/lib/llvm-19 CACHE PATH "Where LLVM and MLIR 19 are installed")
if(NOT EXISTS ${TILEWRIGHT_LLVM_ROOT}/lib/libMLIRIR.a)
  message(FATAL_ERROR "No MLIR 19 in ${TILEWRIGHT_LLVM_ROOT}: install llvm-19-dev, libmlir-19-dev and mlir-19-tools "
                      "(scripts/setup.sh does), or set TILEWRIGHT_LLVM_ROOT.")
endif()
set(TILEWRIGHT_LLVM_BIN ${TILEWRIGHT_LLVM_ROOT}/bin)

file(GLOB mlir_archives ${TILEWRIGHT_LLVM_ROOT}/lib/libMLIR*.a)
list(FILTER mlir_archives EXCLUDE REGEX "libMLIR(CAPI|.*Test|.*TestPasses|JitRunner|Mlir.*Main|LspServer|Query|Reduce)[A-Za-z]*\\.a$")
file(GLOB llvm_archives ${TILEWRIGHT_LLVM_ROOT}/lib/libLLVM*.a)
list(FILTER llvm_archives EXCLUDE REGEX
  "libLLVM(AArch64|AMDGPU|ARM|AVR|BPF|Hexagon|Lanai|LoongArch|M68k|Mips|MSP430|NVPTX|PowerPC|RISCV|Sparc|SystemZ|VE|WebAssembly|XCore|Xtensa|BOLT|Exegesis)[A-Za-z0-9]*\\.a$")
find_library(ZLIB_ARCHIVE libz.a REQUIRED)
find_library(ZSTD_ARCHIVE libzstd.a REQUIRED)

add_library(tilewright_mlir INTERFACE)
target_include_directories(tilewright_mlir SYSTEM INTERFACE ${TILEWRIGHT_LLVM_ROOT}/include)
target_link_libraries(tilewright_mlir INTERFACE
  ${mlir_archives} ${llvm_archives} ${ZLIB_ARCHIVE} ${ZSTD_ARCHIVE} Threads::Threads ${CMAKE_DL_LIBS})

# The MLIR headers take 29 s a file with clang, 3 s with this header compiled once (24 s, templates instantiated in it).
file(WRITE ${PROJECT_BINARY_DIR}/pch/MlirPch.cpp "// Holds the precompiled header that the MLIR rooms share.\n")
add_library(tilewright_mlir_pch STATIC ${PROJECT_BINARY_DIR}/pch/MlirPch.cpp)
target_link_libraries(tilewright_mlir_pch PRIVATE tilewright_headers tilewright_mlir)
target_precompile_headers(tilewright_mlir_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/pch/MlirPch.h)
function(tilewright_use_mlir_pch target)
  target_precompile_headers(${target} REUSE_FROM tilewright_mlir_pch)
  # std::stable_sort, instantiated in the precompiled header, warns of libstdc++'s own use of a deprecated function.
  target_compile_options(${target} PRIVATE -Wno-deprecated-declarations)
endfunction()

# tilewright_tablegen(TARGET TD OUT:ACTION...): runs mlir-tblgen on include/tilewright/TD; what it writes lies beside it in
# the build's include folder. ACTION is a generator with options, separated by spaces.
function(tilewright_tablegen target td)
  get_filename_component(folder tilewright/${td} DIRECTORY)
  set(outputs)
  foreach(pair ${ARGN})
    string(REGEX MATCH "^([^:]+):(.*)$" matched "${pair}")
    set(out ${PROJECT_BINARY_DIR}/include/${folder}/${CMAKE_MATCH_1})
    separate_arguments(action UNIX_COMMAND "${CMAKE_MATCH_2}")
    add_custom_command(OUTPUT ${out}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/include/${folder}
      COMMAND ${TILEWRIGHT_LLVM_BIN}/mlir-tblgen ${action} -I ${PROJECT_SOURCE_DIR}/include
              -I ${TILEWRIGHT_LLVM_ROOT}/include ${PROJECT_SOURCE_DIR}/include/tilewright/${td} -o ${out} -d ${out}.d
      DEPENDS ${PROJECT_SOURCE_DIR}/include/tilewright/${td}
      DEPFILE ${out}.d
      COMMENT "mlir-tblgen ${folder}/${CMAKE_MATCH_1}"
      VERBATIM)
    list(APPEND outputs ${out})
  endforeach()
  add_custom_target(${target} DEPENDS ${outputs})
endfunction()
