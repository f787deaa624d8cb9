/* null.h - the devices that compute nothing. */
#pragma once

#include "device/device.h"

extern const tri_device tri__device_null, tri__device_timed;
