// One compile of this file is the unit in which tools/measure_checks.py reports what a check takes, so that a
// slow or busy machine is not taken for a slow check. It uses the standard library as our sources do, and
// never changes.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

struct Point {
  std::string name;
  std::map<std::string, std::vector<double>, std::less<>> values;
  std::optional<std::chrono::nanoseconds> age;
};

class Table {
 public:
  Point* Find(std::string_view name) {
    std::lock_guard lock(mutex_);
    auto found = points_.find(std::string(name));
    return found == points_.end() ? nullptr : found->second.get();
  }

  void Add(std::string_view text) {
    auto point = std::make_unique<Point>();
    size_t at = 0;
    while (at < text.size()) {
      size_t end = std::min(text.find(',', at), text.size());
      double value = 0;
      auto [rest, error] = std::from_chars(text.data() + at, text.data() + end, value);
      if (error == std::errc() && rest == text.data() + end)
        point->values[std::string(text.substr(at, end - at))].push_back(value);
      at = end + 1;
    }
    std::lock_guard lock(mutex_);
    names_.insert(std::string(text));
    points_.insert_or_assign(std::string(text), std::move(point));
  }

  std::vector<std::pair<std::string, double>> Sorted(const std::function<bool(const Point&)>& wanted) {
    std::vector<std::pair<std::string, double>> rows;
    std::lock_guard lock(mutex_);
    for (const auto& [name, point] : points_) {
      if (!wanted(*point)) continue;
      for (const auto& [key, values] : point->values) {
        for (double value : values) rows.emplace_back(name + "/" + key, value);
      }
    }
    std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    return rows;
  }

 private:
  std::mutex mutex_;
  std::set<std::string> names_;
  std::unordered_map<std::string, std::unique_ptr<Point>> points_;
};

int main(int argc, char** argv) {
  Table table;
  for (int i = 1; i < argc; ++i) table.Add(argv[i]);
  auto rows = table.Sorted([](const Point& point) { return !point.age; });
  return table.Find("1,2") != nullptr && rows.empty() ? 1 : 0;
}
