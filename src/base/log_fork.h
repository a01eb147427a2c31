// For a process that forks and whose child goes on with threads of its own: at the fork nobody may be in the
// middle of a line, or the child's log is locked for ever.
#pragma once

namespace gpulens {

// Before the fork; then after it, in the parent and in the child.
void HoldLog() noexcept;
void ReleaseLog() noexcept;

}  // namespace gpulens
