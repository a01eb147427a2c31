// A proxy that meters LLM APIs: its loops and listeners, keys, prices and budgets, journal and stores.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "net/message/address.h"
#include "net/relay/relay_server.h"
#include "pricing/price_table.h"
#include "proxy/admission/admission.h"
#include "proxy/genai_telemetry.h"
#include "proxy/journal/journal.h"
#include "proxy/proxy_config.h"
#include "proxy/proxy_records.h"

namespace gpulens::proxy {

// Names the list prices of the program among price files.
inline constexpr std::string_view kBuiltinPrices = "builtin";

struct ProxyOptions {
  std::vector<Endpoint> listen;
  std::string web_config;  // TLS of the listeners; empty: none
  size_t loops = 1;        // threads, which share the listeners
  RelayLimits limits;
  std::vector<AddressRange> trusted_peers;

  JournalOptions journal;  // its folder and rules; the stores are these
  struct Store {
    std::string name;
    std::string place;  // a path, or the URL of PostgreSQL or ClickHouse
  };
  std::vector<Store> stores;
  std::string telemetry;            // a place like a store's; empty: none
  Duration telemetry_retention{0};  // older rows of it are deleted; 0: none are

  std::string keys_file;
  AdmissionOptions admission;
  std::vector<BudgetSpec> budgets;
  std::string budget_engine;  // URL; empty: this process alone
  std::string replica;        // its name there
  bool open_when_down = false;
  std::vector<std::string> price_files;  // in ascending precedence; kBuiltinPrices is one
  ProxyConfig config;
  GenaiOptions genai;  // metrics and spans that are sent
};

// The price files, of the configured providers. kInvalidArgument names file, line and column.
Result<pricing::PriceTable> LoadPrices(const ProxyOptions& options);

// Thread-safe.
class LlmProxy {
 public:
  // Reads keys and prices, recovers the journal, counts what budgets have spent, and listens.
  // kInvalidArgument: the configuration is wrong; kUnavailable and others: it cannot run. `records`: those of
  // options.telemetry; null: none.
  static Result<std::unique_ptr<LlmProxy>> Start(ProxyOptions options,
                                                 std::unique_ptr<RequestRecords> records = nullptr);
  ~LlmProxy();
  LlmProxy(const LlmProxy&) = delete;
  LlmProxy& operator=(const LlmProxy&) = delete;

  // Keys, budgets, prices, providers, routes and rules of `next` hold for requests that come from now on;
  // open ones go on as they began. Changes nothing when it fails. Listeners, stores and limits need a new
  // start.
  Status Reload(ProxyOptions next);
  // Accepts no more, lets open requests finish until then, and writes what is settled. Once.
  void Stop(Duration grace);

  // With their real ports.
  std::vector<Endpoint> addresses() const;
  const JournalFound& found() const noexcept;
  Admission& admission() noexcept;

 private:
  class Impl;
  explicit LlmProxy(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace gpulens::proxy
