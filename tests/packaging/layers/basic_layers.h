// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A user's own header may have the name of one of Tapestry's.
inline constexpr int own_header = 1;
