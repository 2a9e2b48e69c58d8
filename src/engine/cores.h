/* How many processors this process may use. */
#ifndef KE_CORES_H
#define KE_CORES_H

/* By affinity mask, and by the share a container's control group allows (rounded up); at least 1. */
int ke_cores(void);

#endif
