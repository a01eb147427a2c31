// File locks of this SQLite that another SQLite in the same process does not drop, and that do not drop its
// own.
#pragma once

#include <cstddef>

#include <gpulens/status.h>

namespace gpulens::sqlite {

// POSIX locks belong to a process: when it closes any descriptor of a file, it loses all its locks on the
// file. A copy of SQLite allows for that among its own connections, but two copies in one process (ours and
// that of Python's module sqlite3) drop each other's locks, and a file that both have open can be damaged.
//
// Makes the copy of SQLite that is linked here hold its locks as another process would: by open file
// descriptions (F_OFD_SETLK), one for each file. A descriptor that it closes stays open while others hold
// locks on the file, since they may be of this process; it is used again when SQLite opens the file, and
// closed at a later open or close.
//
// Once, before the first connection. kUnavailable: this SQLite does not let its system calls be replaced, or
// the kernel has no such locks (Linux before 3.15); the locks are then POSIX locks, as without this call.
Status HoldLocksApart();

// Number of descriptors that are kept open for the locks of others.
size_t KeptDescriptors() noexcept;

}  // namespace gpulens::sqlite
