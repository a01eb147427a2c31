#include <gpulens/inference.h>

#include "net/plain/secure_post.h"

namespace gpulens {

void UseTlsForStores() noexcept { LinkSecurePost(); }

}  // namespace gpulens
