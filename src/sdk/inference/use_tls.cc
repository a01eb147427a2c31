#include <gpulens/inference.h>

#include "net/client/http_client.h"

namespace gpulens {

void UseTlsForStores() noexcept { LinkSecurePost(); }

}  // namespace gpulens
