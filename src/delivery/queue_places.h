// Where folders of request logs are, and whose. Reads the names of folders alone.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

// One folder of a log.
struct QueuePlace {
  std::string folder;
  std::string owner;    // whose position is the file `position`; empty: nobody's
  bool follow = false;  // a symbolic link at `folder` is followed: an administrator named it
};

// The sink whose own folder in the queue folder of a state folder is called so: "otlp.b" is that of "otlp/b".
// Empty for "otlp+1" and "received", which belong to several.
std::string OwnerOfQueueFolder(const std::string& name);
// All that is in the queue folder of a state folder, by name. Nothing, and ok, where it is not there. Names
// that are no folders are among them. At most 1,024: kExhausted when there are more.
Result<std::vector<QueuePlace>> QueuePlacesIn(const std::string& root);
// `folder` and those beside it that logs of the same sinks have made: `folder`+1 and so on, and `received`.
std::vector<QueuePlace> QueuePlacesBeside(const std::string& folder, const std::string& owner);

// Both: what is in `root`, which may be empty, and beside each of `chosen`, none twice. `status`: why some
// may be missing.
struct QueuePlaces {
  std::vector<QueuePlace> places;
  Status status;
};
QueuePlaces AllQueuePlaces(const std::string& root, const std::vector<QueuePlace>& chosen);
// Of the characters of a sink's name, with '.' for '/'.
bool IsSinkFile(std::string_view name) noexcept;
// Calls `visit` for each name in the folder until it says false.
Status ForEachName(int folder, const std::function<bool(std::string_view)>& visit);

}  // namespace gpulens
