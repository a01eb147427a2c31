// /api/explain: what an event means, and what to do.
#pragma once

#include "agent/api/api.h"

namespace gpulens {

// Adds the page. `event=NAME` of the catalogue's events; `xid=N`, `sxid=N` or `message=CODE` for the facts of
// a driver's code, as `gpulens explain` has them. kInvalidArgument for what is not known.
void AddExplainPage(Api& api);

}  // namespace gpulens
