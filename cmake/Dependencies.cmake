# Debian packages only, found here, static archives by name: the shipped binary needs glibc alone.
# docs/dependencies.md has a row for each.
include_guard()

# An IMPORTED target on the static archive lib<library>.a, or on the shared one where none is shipped.
function(gpulens_archive target library header)
  find_path(${target}_INCLUDE ${header} REQUIRED)
  find_library(${target}_LIBRARY NAMES lib${library}.a ${library} REQUIRED)
  mark_as_advanced(${target}_INCLUDE ${target}_LIBRARY)
  add_library(${target} UNKNOWN IMPORTED)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${target}_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${${target}_INCLUDE})
endfunction()

find_package(Boost 1.81 REQUIRED)
set(OPENSSL_USE_STATIC_LIBS TRUE)
find_package(OpenSSL 3.0 REQUIRED)
gpulens_archive(dep_yaml yaml-cpp yaml-cpp/yaml.h)
gpulens_archive(dep_deflate deflate libdeflate.h)
gpulens_archive(dep_zstd zstd zstd.h)
gpulens_archive(dep_nghttp2 nghttp2 nghttp2/nghttp2.h)
gpulens_archive(dep_snappy snappy snappy-c.h)
gpulens_archive(dep_sqlite sqlite3 sqlite3.h)
gpulens_archive(dep_ncurses ncursesw ncursesw/curses.h)
gpulens_archive(dep_tinfo tinfo ncursesw/term.h)
# libbpf needs the other one, and libelf, of which src/sources/bpf/elf_memory.cc has what is called.
gpulens_archive(dep_bpf bpf bpf/libbpf.h)
set_target_properties(dep_bpf PROPERTIES INTERFACE_LINK_OPTIONS LINKER:--wrap=bpf_btf_get_next_id)
gpulens_archive(dep_z z zlib.h)
# Files of the web page, not code: of another architecture they are the same.
find_path(dep_dygraphs dygraph.min.js PATHS /usr/share/javascript/dygraphs NO_CMAKE_FIND_ROOT_PATH
  DOC "Folder of dygraph.min.js and dygraph.min.css (Debian: libjs-dygraphs)")
if(NOT dep_dygraphs)
  message(FATAL_ERROR "dygraphs, the charts of the web page, is not here: install libjs-dygraphs, or name a folder with "
    "dygraph.min.js and dygraph.min.css of dygraphs 2.2: -Ddep_dygraphs=FOLDER")
endif()
find_package(CLI11 2.1 REQUIRED)
if(GPULENS_TESTS)
  find_package(GTest 1.12 REQUIRED)
  find_package(rapidcheck QUIET)
endif()
if(GPULENS_BENCHES)
  find_package(benchmark 1.7 REQUIRED)
endif()
