# Libraries that jobs load. They need the C library alone, so that they load in old containers.
include_guard()

# gpulens_job_library(name sources…): the shared object lib<name>.so of sources that need neither exceptions nor the C++
# library. It stays loaded once it was (nodelete), binds all symbols at once, and hides all that is not exported by name.
# Sanitizers are left out: a job has none. tests/inject/job_libraries.py checks what it needs and exports.
function(gpulens_job_library name)
  add_library(${name} MODULE ${ARGN})
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_include_directories(${name} PRIVATE src)
  target_compile_definitions(${name} PRIVATE GPULENS_JOB_LIBRARY GPULENS_VERSION="${PROJECT_VERSION}")
  set(hardened ${gpulens_hardened})
  list(REMOVE_ITEM hardened -D_GLIBCXX_ASSERTIONS)  # calls the C++ library
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wconversion -Wshadow -Werror -O2 -fno-exceptions -fno-rtti
                         -fno-threadsafe-statics -fvisibility=hidden -ffunction-sections -fdata-sections ${hardened})
  # Linked by the C compiler. libdl is where an old glibc has dlopen, though this one has it in libc.
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C)
  target_link_options(${name} PRIVATE -static-libgcc -Wl,--gc-sections -Wl,--as-needed -Wl,-z,nodelete -Wl,-z,defs
                      ${gpulens_hardened_link})
  target_link_libraries(${name} PRIVATE -Wl,--no-as-needed -l:libdl.so.2 -Wl,--as-needed)
endfunction()

add_gpulens_library(inject_nccl DIR src/inject/nccl DEPS gpulens_job_page)
file(GLOB sources CONFIGURE_DEPENDS src/inject/nccl/*.cc)
list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
gpulens_job_library(gpulens-nccl-profiler ${sources})
# NCCL_PROFILER_PLUGIN=gpulens finds it by these names.
foreach(link libnccl-profiler-gpulens.so librccl-profiler-gpulens.so)
  add_custom_command(TARGET gpulens-nccl-profiler POST_BUILD VERBATIM
                     COMMAND ${CMAKE_COMMAND} -E create_symlink libgpulens-nccl-profiler.so ${link}
                     WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
endforeach()

include(${CMAKE_CURRENT_LIST_DIR}/cuda/targets.cmake)
