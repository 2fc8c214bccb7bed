# Script: links every source of the Python package into the build's package folder, and writes the metadata
# (entry points included) that makes Python see an installed distribution there.
# Arguments: SOURCE, PACKAGE, VERSION.

file(MAKE_DIRECTORY ${PACKAGE})
file(GLOB entries RELATIVE ${SOURCE} ${SOURCE}/*)
list(REMOVE_ITEM entries __pycache__)
foreach(entry ${entries})
  if(NOT IS_SYMLINK ${PACKAGE}/${entry})
    file(CREATE_LINK ${SOURCE}/${entry} ${PACKAGE}/${entry} SYMBOLIC)
  endif()
endforeach()
# Links to files that are gone would be imported half: remove them.
file(GLOB linked ${PACKAGE}/*)
foreach(link ${linked})
  if(IS_SYMLINK ${link} AND NOT EXISTS ${link})
    file(REMOVE ${link})
  endif()
endforeach()

get_filename_component(parent ${PACKAGE} DIRECTORY)
set(info ${parent}/tilewright-${VERSION}.dist-info)
file(MAKE_DIRECTORY ${info})
file(WRITE ${info}/METADATA "Metadata-Version: 2.1\nName: tilewright\nVersion: ${VERSION}\n")
file(WRITE ${info}/INSTALLER "cmake\n")
# An entry point whose module is missing makes `import torch` fail for everybody.
set(entry_points "")
if(EXISTS ${SOURCE}/_autoload.py)
  string(APPEND entry_points "[torch.backends]\ntilewright = tilewright._autoload:load\n\n")
endif()
if(EXISTS ${SOURCE}/dynamo.py OR EXISTS ${SOURCE}/dynamo/__init__.py)
  string(APPEND entry_points "[torch_dynamo_backends]\ntilewright = tilewright.dynamo:backend\n")
endif()
file(WRITE ${info}/entry_points.txt "${entry_points}")
