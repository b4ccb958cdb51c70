#include "train/base/exit_code.h"

#include <new>
#include <stdexcept>
#include <system_error>

namespace tapestry {

ExitCode to_exit_code(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UserError& user_error) {
    return exit_code(user_error);
  } catch (const std::bad_alloc&) {
    return ExitCode::memory;
  } catch (const std::length_error&) {
    return ExitCode::memory;
  } catch (const std::system_error& system_error) {
    return system_error.code() == std::errc::resource_unavailable_try_again ? ExitCode::memory
                                                                            : ExitCode::bug;
  } catch (...) {
    return ExitCode::bug;
  }
}

}  // namespace tapestry
