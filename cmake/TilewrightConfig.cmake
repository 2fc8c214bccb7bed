# find_package(Tilewright): the targets Tilewright::kernel (tile kernels from C++) and Tilewright::runtime. The compiler is opened by
# the runtime when a program is not in the cache; it lies beside it.
get_filename_component(_tilewright_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
foreach(_name runtime kernel)
  if(NOT TARGET Tilewright::${_name})
    add_library(Tilewright::${_name} SHARED IMPORTED)
    set_target_properties(Tilewright::${_name} PROPERTIES
      IMPORTED_LOCATION "${_tilewright_root}/lib/libtilewright_${_name}.so"
      IMPORTED_NO_SONAME ON
      INTERFACE_INCLUDE_DIRECTORIES "${_tilewright_root}/include"
      INTERFACE_COMPILE_FEATURES cxx_std_20)
  endif()
endforeach()
set_property(TARGET Tilewright::kernel APPEND PROPERTY INTERFACE_LINK_LIBRARIES Tilewright::runtime)
unset(_name)
unset(_tilewright_root)
