// What people may see of a URL that has secrets in it.
#pragma once

#include <string>
#include <string_view>

namespace gpulens {

// scheme://user@host:port/path of a URL with "://": without its password, parameters and what follows.
std::string UrlName(std::string_view url);

}  // namespace gpulens
