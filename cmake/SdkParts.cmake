# The parts of the SDK, for its archive (cmake/Sdk.cmake), for the Python package and for the package's sdist.
include_guard()

# The floors of src/ that it needs, lowest first.
set(GPULENS_SDK_FLOORS base job_page core net reader sources catalog wire instruments energy ledger store sdk)
# Its own libraries; what they link belongs to it, too. A program takes what it names out of the archive.
set(GPULENS_SDK_PARTS gpulens_instruments gpulens_sdk_energy gpulens_sdk_export gpulens_sdk_c gpulens_sdk_experiment
    gpulens_sdk_inference gpulens_sdk_job gpulens_sdk_ring gpulens_sdk_ring_resident gpulens_sdk_training)

# Sets `own` to the targets of this project that `ARGN` are made of, and `foreign` to the system's libraries that these link.
function(gpulens_closure own foreign)
  set(open ${ARGN})
  set(seen)
  set(others)
  while(open)
    list(POP_FRONT open target)
    if(target IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${target})
    gpulens_links(links system ${target})
    list(APPEND open ${links})
    list(APPEND others ${system})
  endwhile()
  list(REMOVE_DUPLICATES others)
  set(${own} "${seen}" PARENT_SCOPE)
  set(${foreign} "${others}" PARENT_SCOPE)
endfunction()

# The same for what one target links itself.
function(gpulens_links own foreign target)
  get_target_property(type ${target} TYPE)
  set(property LINK_LIBRARIES)
  if(type STREQUAL "INTERFACE_LIBRARY")
    set(property INTERFACE_LINK_LIBRARIES)
  endif()
  get_target_property(links ${target} ${property})
  set(others ${links})
  list(FILTER links INCLUDE REGEX "^gpulens_")
  list(FILTER others INCLUDE REGEX "^(dep_|OpenSSL::)")
  set(${own} "${links}" PARENT_SCOPE)
  set(${foreign} "${others}" PARENT_SCOPE)
endfunction()

# Sets `result` to the sources of targets.
function(gpulens_sources result)
  set(all)
  foreach(target ${ARGN})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      get_target_property(sources ${target} SOURCES)
      list(APPEND all ${sources})
    endif()
  endforeach()
  set(${result} "${all}" PARENT_SCOPE)
endfunction()
