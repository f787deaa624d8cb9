/* number_loss.h - losses of predicted numbers, of one output and its target; as PyTorch's MSELoss, L1Loss, HuberLoss,
 * PoissonNLLLoss, BCEWithLogitsLoss with pos_weight, and the pinball loss of a quantile (Koenker and Bassett 1978).
 * A target that is NaN is left out: it adds nothing. */
#pragma once

#include "base/kernel_function.h"

#include <math.h>

typedef enum tri_number_loss {
    TRI_NUMBER_SQUARED, TRI_NUMBER_ABSOLUTE, TRI_NUMBER_HUBER, TRI_NUMBER_POISSON, TRI_NUMBER_PINBALL,
    TRI_NUMBER_BINARY /* cross-entropy of whether a label is there: targets 0 and 1 */
} tri_number_loss;

/* What the model says, of its last layer's output: with POISSON its logarithm, with BINARY that of the odds. */
TRI_KERNEL_FUNCTION double tri__number_value(int loss, double y) {
    return loss == TRI_NUMBER_POISSON ? exp(y) : loss == TRI_NUMBER_BINARY ? 1 / (1 + exp(-y)) : y;
}

/* delta: HUBER, where the loss becomes linear; level: of PINBALL, of BINARY the weight of a label that is there. */
TRI_KERNEL_FUNCTION double tri__number_loss(int loss, double delta, double level, double y, double target) {
    double d = y - target;
    if (isnan(target)) return 0;
    switch (loss) {
    case TRI_NUMBER_ABSOLUTE: return fabs(d);
    case TRI_NUMBER_HUBER: return fabs(d) <= delta ? d * d / 2 : delta * (fabs(d) - delta / 2);
    case TRI_NUMBER_POISSON: return exp(y) - target * y;
    case TRI_NUMBER_PINBALL: return d > 0 ? (1 - level) * d : -level * d;
    case TRI_NUMBER_BINARY: /* softplus(y) and softplus(-y) have the same second term */
        d = log1p(exp(-fabs(y)));
        return level * target * ((y < 0 ? -y : 0) + d) + (1 - target) * ((y > 0 ? y : 0) + d);
    default: return d * d;
    }
}

/* Its derivative by y, of the value that y stands for. 0 where there is none; what is no number stays so. */
TRI_KERNEL_FUNCTION double tri__number_slope(int loss, double delta, double level, double value, double target) {
    double d = value - target;
    if (isnan(target)) return 0;
    switch (loss) {
    case TRI_NUMBER_ABSOLUTE: return d > 0 ? 1 : d < 0 ? -1 : d;
    case TRI_NUMBER_HUBER: return d > delta ? delta : d < -delta ? -delta : d;
    case TRI_NUMBER_POISSON: return d;
    case TRI_NUMBER_PINBALL: return d > 0 ? 1 - level : d < 0 ? -level : d;
    case TRI_NUMBER_BINARY: return (1 - target) * value - level * target * (1 - value);
    default: return 2 * d;
    }
}
