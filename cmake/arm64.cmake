# Toolchain: arm64 with Debian's cross compiler, libraries in the folder that tools/prepare_arm64.sh unpacks them into.
# Programs that the build or ctest runs are run by qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(triple aarch64-linux-gnu)
set(CMAKE_C_COMPILER ${triple}-gcc)
set(CMAKE_CXX_COMPILER ${triple}-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${triple})
set(sysroot ${CMAKE_CURRENT_LIST_DIR}/../build/sysroot-arm64/root)
get_filename_component(sysroot ${sysroot} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${sysroot})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Headers that differ between architectures have a folder of their own. The C library is the cross compiler's.
set(CMAKE_CXX_FLAGS_INIT "-isystem ${sysroot}/usr/include/${triple}")
set(CMAKE_C_FLAGS_INIT "${CMAKE_CXX_FLAGS_INIT}")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/${triple})
