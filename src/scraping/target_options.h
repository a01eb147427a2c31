// The options of whatever reads a page: where it is, how to get in, and what it may cost. Static storage.
#pragma once

#include <array>
#include <cstddef>

#include "pipeline/config.h"
#include "scraping/governor/series_options.h"

namespace gpulens::scraping {

template <size_t kFirst, size_t kSecond>
consteval std::array<OptionSpec, kFirst + kSecond> Join(const std::array<OptionSpec, kFirst>& first,
                                                        const std::array<OptionSpec, kSecond>& second) {
  std::array<OptionSpec, kFirst + kSecond> all{};
  for (size_t i = 0; i < kFirst; ++i) all[i] = first[i];
  for (size_t i = 0; i < kSecond; ++i) all[kFirst + i] = second[i];
  return all;
}

inline constexpr OptionSpec kTlsOptions[] = {
    {.key = "ca_file", .help = "Who may have signed the target's certificate; default: the machine's CAs."},
    {.key = "cert_file", .help = "Our certificate, for a target that asks for one."},
    {.key = "key_file", .help = "Its key."},
    {.key = "server_name", .help = "The name to ask for and to check; default: the host of the URL."},
    {.key = "insecure_skip_verify",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Takes any certificate: anyone on the way can read and change what is scraped."},
};

// How to get in and what a page may cost.
inline constexpr auto kAccessOptions = std::to_array<OptionSpec>({
    {.key = "unix_socket", .help = "Connect to this socket file; the URL then names only host and path."},
    {.key = "username", .help = "For basic authentication."},
    {.key = "password", .help = "Its password."},
    {.key = "password_file", .help = "A file with the password; read again when it changes."},
    {.key = "bearer_token", .help = "Sent as Authorization: Bearer."},
    {.key = "bearer_token_file", .help = "A file with the token; read again when it changes."},
    {.key = "headers", .type = OptionType::kTextMap, .help = "More header fields of the request."},
    {.key = "tls", .type = OptionType::kGroup, .help = "For https.", .children = kTlsOptions},
    {.key = "max_body",
     .type = OptionType::kSize,
     .fallback = "64MiB",
     .help = "The largest page, packed or unpacked.",
     .min = 1024,
     .max = 1 << 30},
    {.key = "max_samples",
     .type = OptionType::kInt,
     .fallback = "100000",
     .help = "Samples of one page; those above are left out, and the scrape has failed.",
     .min = 1,
     .max = 10'000'000},
    {.key = "attributes", .type = OptionType::kTextMap, .help = "More attributes of its series."},
});

// When to ask; a collector without targets has these from the house.
inline constexpr auto kTimeOptions = std::to_array<OptionSpec>({
    {.key = "interval", .type = OptionType::kTime, .fallback = "15s", .help = "Between scrapes.", .min = 0.1},
    {.key = "timeout",
     .type = OptionType::kTime,
     .help = "For one scrape; default: the interval, at most 10s."},
    {.key = "ttl",
     .type = OptionType::kTime,
     .help = "How long values of an unreachable target are shown; default: two intervals."},
});

// One element of a list of targets.
inline constexpr auto kTargetOptions =
    Join(Join(std::to_array<OptionSpec>({
                  {.key = "name", .help = "The target attribute of its series.", .required = true},
                  {.key = "url",
                   .type = OptionType::kUrl,
                   .help = "Where its page is; a bare host means /metrics.",
                   .required = true},
              }),
              kTimeOptions),
         kAccessOptions);

// The same of a target whose labels and series are its own affair.
inline constexpr auto kGovernedTargetOptions = Join(kTargetOptions, kGovernorOptions);

}  // namespace gpulens::scraping
