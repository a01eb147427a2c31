# gpulens_flags: what every target of ours is compiled and linked with. Nothing is set globally.
include_guard()
set(GPULENS_SANITIZE "" CACHE STRING "address (with undefined behaviour, fuzzing, coverage) or thread")
add_library(gpulens_flags INTERFACE)
target_compile_features(gpulens_flags INTERFACE cxx_std_20)
target_compile_options(gpulens_flags INTERFACE -Wall -Wextra -Wconversion -Wshadow -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False positives of gcc 12 inside libstdc++ with -O2; clang's own checks stay on.
  target_compile_options(gpulens_flags INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread
                         -Wno-array-bounds)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(gpulens_flags INTERFACE "SHELL:-Xclang -fno-pch-timestamp") # or ccache finds nothing again
  # The path of the precompiled header in a form that ccache makes relative (see also gpulens_precompile).
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include <PCH_HEADER>)
  # Objects name sources relative to the root of the tree, and are the same in each checkout. The option is in a
  # file because ccache would hash the path.
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/paths.cfg CONTENT "-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.\n" @ONLY)
  target_compile_options(gpulens_flags INTERFACE --config=./paths.cfg)
endif()
if(GPULENS_SANITIZE STREQUAL "address")
  # ccache hashes the folder that profiles are written to, if it is below the build tree. LLVM_PROFILE_FILE names it.
  set(sanitize -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all
               -fprofile-instr-generate=/dev/null -fcoverage-mapping -fcoverage-compilation-dir=.
               -fno-omit-frame-pointer)
elseif(GPULENS_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread -fno-omit-frame-pointer)
endif()
target_compile_options(gpulens_flags INTERFACE ${sanitize})
target_link_options(gpulens_flags INTERFACE ${sanitize})

# What makes an error in the code harder to use (docs/adr/0066-hardened-build.md). tools/verify_binary.sh reads in each shipped object
# that it is there. Sanitizers have checks of their own.
set(gpulens_hardened)
set(gpulens_hardened_link)
if(NOT GPULENS_SANITIZE)
  list(APPEND gpulens_hardened -D_GLIBCXX_ASSERTIONS -fstack-protector-strong -fstack-clash-protection)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    list(APPEND gpulens_hardened -fcf-protection=full)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    list(APPEND gpulens_hardened -mbranch-protection=standard)
  endif()
  # glibc warns about it where nothing is optimized: targets with the property GPULENS_NOT_OPTIMIZED.
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    list(APPEND gpulens_hardened
         "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:GPULENS_NOT_OPTIMIZED>>>:SHELL:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3>")
  endif()
  set(gpulens_hardened_link -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code)
endif()
target_compile_options(gpulens_flags INTERFACE ${gpulens_hardened})
target_link_options(gpulens_flags INTERFACE ${gpulens_hardened_link})

if(NOT GPULENS_SANITIZE)
  target_link_options(gpulens_flags INTERFACE -static-libgcc -static-libstdc++ -Wl,--gc-sections -Wl,--as-needed)
  target_compile_options(gpulens_flags INTERFACE -ffunction-sections -fdata-sections)
endif()
find_program(GPULENS_MOLD mold)
if(GPULENS_MOLD)
  target_link_options(gpulens_flags INTERFACE -fuse-ld=mold)
endif()
find_program(GPULENS_CCACHE ccache)
if(GPULENS_CCACHE)
  # Another checkout of the same sources finds what this one has compiled: paths below the root count
  # as relative ones.
  set(ccache_base ${CMAKE_SOURCE_DIR})
  if(GPULENS_CCACHE_BASE)
    set(ccache_base ${GPULENS_CCACHE_BASE})
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${ccache_base} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
      CCACHE_PCH_EXTSUM=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${GPULENS_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
find_package(Threads REQUIRED)
target_link_libraries(gpulens_flags INTERFACE Threads::Threads)
