// Prints quantiles of histograms: for each line "q bound … | count … all" of the standard input the
// quantile with all its digits, or "none". For histogram_quantile.py, which compares it with Prometheus.
#include <cstdio>
#include <string>
#include <vector>

#include "base/parse.h"
#include "core/histogram.h"

int main() {
  std::string line;
  for (int c = std::fgetc(stdin); c != EOF; c = std::fgetc(stdin)) {
    if (c != '\n') {
      line.push_back(static_cast<char>(c));
      continue;
    }
    std::vector<double> bounds, row;
    std::vector<double>* into = &bounds;
    std::string_view rest = line;
    double q = gpulens::ParseDouble(gpulens::TakeUntil(rest, ' ')).value_or(-1);
    while (!rest.empty()) {
      std::string_view word = gpulens::TakeUntil(rest, ' ');
      if (word == "|") into = &row;
      else if (auto number = gpulens::ParseDouble(word)) into->push_back(*number);
      else return std::fprintf(stderr, "no number: %.*s\n", static_cast<int>(word.size()), word.data()), 2;
    }
    auto value = gpulens::Quantile(bounds, row, q);
    if (value) std::printf("%.17g\n", *value);
    else std::puts("none");
    line.clear();
  }
  return 0;
}
