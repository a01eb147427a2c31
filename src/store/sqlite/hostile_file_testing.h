// Files of SQLite made to harm the program that opens them, for fuzzers and tests.
#pragma once

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/check.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/text.h"

namespace gpulens::sqlite {

// Bytes of a database, changed as nobody's SQLite would.
class FileBytes {
 public:
  explicit FileBytes(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string& bytes() noexcept { return bytes_; }
  size_t page_size() const noexcept {
    if (bytes_.size() < 100) return 0;
    const size_t size = static_cast<size_t>(Byte(16)) << 8 | Byte(17);
    return size == 1 ? 65536 : size;
  }
  size_t pages() const noexcept { return page_size() == 0 ? 0 : bytes_.size() / page_size(); }
  // A page over another one, both counted from 1: pages with two parents, and trees that contain themselves.
  void CopyPage(size_t from, size_t to) {
    if (from < 1 || to < 1 || from > pages() || to > pages()) return;
    std::memmove(&bytes_[(to - 1) * page_size()], &bytes_[(from - 1) * page_size()], page_size());
  }
  // Makes of the one page of a small table the root of `levels` levels, where all children of a page are the
  // same one: 30 and more rows to the power of the levels, in a few pages.
  void MakeEndless(size_t root, int levels) {
    const size_t size = page_size();
    if (root < 2 || root > pages() || size < 512 || bytes_[(root - 1) * size] != kLeaf) return;
    const std::string leaf = bytes_.substr((root - 1) * size, size);
    for (int level = 0; level < levels; ++level) {
      const size_t child = pages() + 1;
      const std::string page = Inner(child + (level == 0 ? 0u : 1u));
      if (level == 0) bytes_.replace((root - 1) * size, size, page);
      else bytes_ += page;
    }
    bytes_ += leaf;
    Big(28, pages());
    std::memcpy(&bytes_[92], &bytes_[24], 4);  // the number of pages holds
  }

 private:
  static constexpr char kLeaf = 0x0d, kInner = 0x05;

  uint8_t Byte(size_t at) const noexcept { return static_cast<uint8_t>(bytes_[at]); }
  static void Put(std::string& out, size_t at, uint64_t value, size_t width) {
    for (size_t i = 0; i < width; ++i) out[at + i] = static_cast<char>(value >> (8 * (width - 1 - i)));
  }
  void Big(size_t at, size_t value) { Put(bytes_, at, value, 4); }
  // A page of children that are all `child`; keys 1, 2, …
  std::string Inner(size_t child) const {
    constexpr size_t kHeader = 12, kCell = 5, kMost = 100;
    const size_t count = std::min(kMost, (page_size() - kHeader) / (kCell + 2) - 1);
    std::string page(page_size(), '\0');
    page[0] = kInner;
    Put(page, 3, count, 2);
    Put(page, 5, page_size() - count * kCell, 2);
    Put(page, 8, child, 4);
    for (size_t i = 0; i < count; ++i) {
      const size_t at = page_size() - (i + 1) * kCell;
      Put(page, kHeader + 2 * i, at, 2);
      Put(page, at, child, 4);
      page[at + 4] = static_cast<char>(i + 1);
    }
    return page;
  }

  std::string bytes_;
};

inline std::string ReadWhole(const std::string& path) {
  std::string out;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0) return out;
  out.resize(static_cast<size_t>(info.st_size));
  out.resize(static_cast<size_t>(std::max<ssize_t>(::pread(file.get(), out.data(), out.size(), 0), 0)));
  return out;
}

inline void WriteWhole(const std::string& path, std::string_view bytes) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  CHECK(file && ::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

// A folder with one file, made again for each input of a fuzzer. An input is a whole file, or lines that
// change the file that `make` makes:
//
//   SQL                one or more statements, as a hostile writer runs them: anything but other files
//   @schema NAME SQL   the text of a table, as no CREATE TABLE makes it
//   @byte AT VALUE     AT is taken modulo the size
//   @copy PAGE PAGE    FileBytes::CopyPage
//   @endless NAME N    FileBytes::MakeEndless of that table
//   @cut SIZE          also to more than it was
//
// One for each fuzzer; its threads are none.
class HostileFile {
 public:
  // Makes a small file at that path by the program's own writer, and returns whether that went well. The file
  // is there already, empty, with small pages.
  using Make = std::function<bool(const std::string& path)>;

  HostileFile(std::string name, const Make& make) : name_(std::move(name)) {
    folder_ = std::string(::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + "/hostile_XXXXXX";
    CHECK(::mkdtemp(folder_.data()) != nullptr);
    ::sqlite3_soft_heap_limit64(0);
    Run(path(), "PRAGMA page_size=1024; VACUUM;");
    CHECK(make(path()));
    Run(path(), "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE;");
    base_ = ReadWhole(path());
    CHECK(base_.size() > 1024);
    tables_ = TablesOf(path());
    Clear();
  }
  ~HostileFile() { std::filesystem::remove_all(folder_); }
  HostileFile(const HostileFile&) = delete;
  HostileFile& operator=(const HostileFile&) = delete;

  std::string path() const { return folder_ + "/" + name_; }

  // Makes the file of an input. True: only statements of SQL were run, which leave a whole database.
  bool Write(std::string_view input) {
    Clear();
    bool whole = true;
    if (input.starts_with("SQLite format 3")) {
      WriteWhole(path(), input);
      return false;
    }
    WriteWhole(path(), base_);
    std::string sql;
    for (int lines = 0; !input.empty() && lines < 64; ++lines) {
      const std::string_view line = TakeUntil(input, '\n');
      if (line.starts_with('@')) Change(line.substr(1)), whole = false;
      else if (!line.empty()) Run(path(), std::string(line));
    }
    return whole;
  }

  // The names in the folder; all must be among these, with what SQLite adds to them.
  void CheckNames(std::initializer_list<std::string_view> more) const {
    for (const auto& each : std::filesystem::directory_iterator(folder_)) {
      const std::string name = each.path().filename();
      bool known = false;
      for (std::string_view suffix : {"", "-wal", "-shm", "-journal"})
        known |= name == name_ + std::string(suffix);
      for (std::string_view suffix : more) known |= name.starts_with(name_ + std::string(suffix));
      if (!known) std::fprintf(stderr, "made %s\n", name.c_str());
      CHECK(known);
    }
  }
  std::string Bytes() const { return ReadWhole(path()); }

  // An error names the file, in one line without control characters that steer a terminal, and is of a
  // kind that callers know.
  void CheckError(const Status& error) const {
    if (error.ok()) return;
    if (error.detail.find(name_) == std::string::npos) std::fprintf(stderr, "%s\n", error.detail.c_str());
    CHECK(error.detail.find(name_) != std::string::npos);
    CHECK(error.detail.size() < 4096);
  }
  // SQLite's memory since the last call.
  static void CheckMemory() {
    int64_t now = 0, most = 0;
    ::sqlite3_status64(SQLITE_STATUS_MEMORY_USED, reinterpret_cast<sqlite3_int64*>(&now),
                       reinterpret_cast<sqlite3_int64*>(&most), 1);
    CHECK(most < (256 << 20));
  }

  // For LLVMFuzzerCustomMutator: half of the changes are a line of the kinds above about a table that is
  // there.
  size_t Mutate(uint8_t* data, size_t size, size_t most, unsigned seed,
                const std::function<size_t(uint8_t*, size_t, size_t)>& bytes) const {
    std::mt19937 random(seed);
    const auto below = [&random](size_t end) { return static_cast<size_t>(random() % end); };
    const std::string text(reinterpret_cast<const char*>(data), size);
    if (text.starts_with("SQLite format 3") || below(2) == 0) return bytes(data, size, most);
    std::vector<std::string> lines;
    std::string_view rest = text;
    while (!rest.empty()) lines.emplace_back(TakeUntil(rest, '\n'));
    const std::string line = Line(below);
    if (!lines.empty() && below(3) == 0) lines[below(lines.size())] = line;
    else lines.insert(lines.begin() + static_cast<ptrdiff_t>(below(lines.size() + 1)), line);
    if (lines.size() > 8) lines.erase(lines.begin() + static_cast<ptrdiff_t>(below(lines.size())));
    std::string out;
    for (const std::string& each : lines) out += each + "\n";
    if (out.size() > most) return bytes(data, size, most);
    std::memcpy(data, out.data(), out.size());
    return out.size();
  }

 private:
  struct Table {
    std::string name;
    int64_t root = 0;
    std::vector<std::string> columns;
  };

  struct Close {
    void operator()(sqlite3* database) const noexcept { ::sqlite3_close_v2(database); }
  };
  using Handle = std::unique_ptr<sqlite3, Close>;

  static Handle Open(const std::string& path) {
    sqlite3* handle = nullptr;
    const int code =
        ::sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    Handle out(handle);
    return code == SQLITE_OK ? std::move(out) : nullptr;
  }

  // What would touch other files, or SQLite's settings of the whole process.
  static int Allows(void* /*self*/, int action, const char* one, const char* /*two*/, const char* database,
                    const char* /*trigger*/) {
    if (action == SQLITE_ATTACH && one && *one != '\0') return SQLITE_DENY;
    if (action != SQLITE_PRAGMA || !one) return SQLITE_OK;
    static_cast<void>(database);
    for (std::string_view pragma :
         {"writable_schema", "user_version", "application_id", "page_size", "auto_vacuum", "encoding",
          "journal_mode", "foreign_keys", "schema_version", "ignore_check_constraints", "wal_checkpoint",
          "legacy_alter_table"})
      if (pragma == one) return SQLITE_OK;
    return SQLITE_DENY;
  }

  // Errors are of no interest: an input is what it is. Bounded in time and size.
  static void Run(const std::string& path, const std::string& sql) {
    const Handle handle = Open(path);
    if (!handle) return;
    ::sqlite3_set_authorizer(handle.get(), &Allows, nullptr);
    ::sqlite3_limit(handle.get(), SQLITE_LIMIT_LENGTH, 1 << 20);
    ::sqlite3_limit(handle.get(), SQLITE_LIMIT_TRIGGER_DEPTH, 10);
    int left = 50;
    const auto over = [](void* rounds) { return static_cast<int>(--*static_cast<int*>(rounds) <= 0); };
    ::sqlite3_progress_handler(handle.get(), 1000, over, &left);
    static_cast<void>(::sqlite3_exec(handle.get(), "PRAGMA foreign_keys=OFF", nullptr, nullptr, nullptr));
    static_cast<void>(::sqlite3_exec(handle.get(), sql.c_str(), nullptr, nullptr, nullptr));
  }

  static std::vector<Table> TablesOf(const std::string& path) {
    std::vector<Table> tables;
    const Handle handle = Open(path);
    CHECK(handle);
    const auto take = [](void* out, int, char** values, char**) {
      auto& all = *static_cast<std::vector<Table>*>(out);
      if (all.empty() || all.back().name != values[0])
        all.push_back({values[0], ParseInt<int64_t>(values[1]).value_or(0), {}});
      all.back().columns.emplace_back(values[2]);
      return 0;
    };
    static_cast<void>(::sqlite3_exec(handle.get(),
                                     "SELECT m.name, m.rootpage, c.name FROM sqlite_master m, "
                                     "pragma_table_info(m.name) c WHERE m.type='table' ORDER BY m.name",
                                     take, &tables, nullptr));
    CHECK(!tables.empty());
    return tables;
  }

  void Clear() {
    for (const auto& each : std::filesystem::directory_iterator(folder_))
      std::filesystem::remove_all(each.path());
  }

  void Change(std::string_view line) {
    const std::string_view what = TakeUntil(line, ' ');
    if (what == "schema") {
      const std::string name(TakeUntil(line, ' '));
      std::string text;
      for (char c : line) text += c == '\'' ? std::string("''") : std::string(1, c);
      Run(path(),
          "PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql='" + text + "' WHERE name='" + name + "'");
      return;
    }
    FileBytes file(ReadWhole(path()));
    std::string& bytes = file.bytes();
    if (bytes.empty()) return;
    const std::string_view first = TakeUntil(line, ' ');
    const auto one = ParseInt<uint32_t>(first), two = ParseInt<uint32_t>(line);
    if (what == "byte" && one && two) {
      bytes[*one % bytes.size()] = static_cast<char>(*two);
    } else if (what == "copy" && one && two) {
      file.CopyPage(*one, *two);
    } else if (what == "cut" && one) {
      bytes.resize(*one % (1 << 20));
    } else if (what == "endless" && two) {
      for (const Table& table : tables_)
        if (table.name == first)
          file.MakeEndless(static_cast<size_t>(table.root), static_cast<int>(*two % 18));
    }
    WriteWhole(path(), bytes);
  }

  template <class Below>
  std::string Line(const Below& below) const {
    const Table& table = tables_[below(tables_.size())];
    const std::string& name = table.name;
    const std::string& column = table.columns[below(table.columns.size())];
    std::string columns;
    for (const std::string& each : table.columns) columns += (columns.empty() ? "" : ",") + each;
    const std::string gone = "DROP TABLE " + name + "; ";
    static constexpr const char* kValues[] = {"NULL",
                                              "x'00ff80'",
                                              "''",
                                              "'\x1b[2J'",
                                              "1e308*10",
                                              "-1",
                                              "'nan'",
                                              "9223372036854775807",
                                              "zeroblob(9e5)",
                                              "'"
                                              "a''b\"c"
                                              "'",
                                              "'../..'",
                                              "-9223372036854775807-1",
                                              "0.5",
                                              "'{\"a\":[1]}'"};
    const std::string value = kValues[below(std::size(kValues))];
    switch (below(18)) {
      case 0: {
        std::string endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT ";
        for (const std::string& each : table.columns)
          endless += (&each == &table.columns[0] ? "i AS " : ",i AS ") + each;
        return gone + "CREATE VIEW " + name + " AS " + endless + " FROM n";
      }
      case 1:
        return gone + "CREATE VIEW " + name + " AS SELECT * FROM v; CREATE VIEW v AS SELECT * FROM " + name;
      case 2: return "CREATE TRIGGER t AFTER INSERT ON " + name + " BEGIN DELETE FROM " + name + "; END";
      case 3:
        return "CREATE TRIGGER t BEFORE INSERT ON " + name + " BEGIN INSERT INTO " + name +
               " DEFAULT VALUES; END";
      case 4:
        return "ALTER TABLE " + name + " ADD COLUMN g" + std::to_string(below(4)) +
               " AS (hex(zeroblob(9e5)))";
      case 5: return gone + "CREATE TABLE " + name + "(" + columns + ")";
      case 6: return gone + "CREATE VIRTUAL TABLE " + name + " USING fts5(" + columns + ")";
      case 7: return gone;
      case 8: return "ALTER TABLE " + name + " DROP COLUMN " + column;
      case 9: return "ALTER TABLE " + name + " RENAME COLUMN " + column + " TO x";
      case 10: return "INSERT INTO " + name + " SELECT * FROM " + name;
      case 11: return "@schema " + name + " CREATE TABLE " + name + "(" + columns + ")";
      case 12: return "@copy " + std::to_string(1 + below(12)) + " " + std::to_string(1 + below(12));
      case 13: return "@endless " + name + " " + std::to_string(below(8));
      case 14: return "@byte " + std::to_string(below(base_.size())) + " " + std::to_string(below(256));
      case 15:
        return "PRAGMA user_version=" + std::to_string(below(4)) +
               "; PRAGMA application_id=" + std::to_string(below(3));
      case 16:
        return "CREATE INDEX i" + std::to_string(below(3)) + " ON " + name + "(abs(" + column + ") DESC)";
      default: return "UPDATE " + name + " SET " + column + "=" + value;
    }
  }

  const std::string name_;
  std::string folder_, base_;
  std::vector<Table> tables_;
};

}  // namespace gpulens::sqlite
