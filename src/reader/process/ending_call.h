// Says on the shared page in which library call the process ends, when a call ends it.
#pragma once

#include "reader/call_page.h"

namespace gpulens::driver {

// The slot of the call that this thread is in; null outside of calls.
extern constinit thread_local CallSlot* current_call;

// From now on a signal that ends the process, and exit() out of a call, first name the call on `page`, which
// stays mapped for ever. The signal then does what it would have done. Not thread-safe; of several pages
// the last one holds.
void NameEndingCallOn(CallPage& page);

}  // namespace gpulens::driver
