#include "base/url_name.h"

namespace gpulens {

std::string UrlName(std::string_view url) {
  const size_t from = url.find("://") + 3;
  const std::string_view scheme = url.substr(0, from), rest = url.substr(from);
  // A password that was not escaped may hold any of these characters: the last @ ends it.
  const size_t at = rest.rfind('@');
  std::string_view user = at == std::string_view::npos ? "" : rest.substr(0, at);
  std::string_view where = at == std::string_view::npos ? rest : rest.substr(at + 1);
  user = user.substr(0, user.find_first_of(":/?"));
  where = where.substr(0, where.find('?'));
  return std::string(scheme) + std::string(user) + (user.empty() ? "" : "@") + std::string(where);
}

}  // namespace gpulens
