/* Configures the guest's interfaces by ioctl, which is enough for one address each and needs no netlink.
 * Called by microvm_boot.c. */
#include "init/guest/guest_net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

#define CARD "eth0"

uint32_t box_guest_net_mask(uint32_t prefix)
{
	return prefix == 0 ? 0 : htonl(~0U << (prefix < 32 ? 32 - prefix : 0));
}

static void put_address(struct sockaddr *to, uint32_t address)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = address};
	memcpy(to, &in, sizeof(in));
}

static struct ifreq request_for(const char *name)
{
	struct ifreq request = {0};
	memcpy(request.ifr_name, name, strlen(name) + 1);
	return request;
}

static int bring_up(int fd, const char *name)
{
	struct ifreq request = request_for(name);
	if (ioctl(fd, SIOCGIFFLAGS, &request) < 0) {
		return -errno;
	}
	request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
	return ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

static int set_address(int fd, unsigned long what, uint32_t address)
{
	struct ifreq request = request_for(CARD);
	put_address(&request.ifr_addr, address);
	return ioctl(fd, (int)what, &request) < 0 ? -errno : 0;
}

static int add_gateway(int fd, uint32_t gateway)
{
	struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY};
	put_address(&route.rt_dst, INADDR_ANY);
	put_address(&route.rt_genmask, INADDR_ANY);
	put_address(&route.rt_gateway, gateway);
	return ioctl(fd, SIOCADDRT, &route) < 0 ? -errno : 0;
}

int box_guest_net_set_up(const struct box_microvm_boot *boot)
{
	_cleanup_(box_close_p) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	int r = bring_up(fd, "lo");
	if (r < 0 || !boot->network) {
		return r;
	}
	r = set_address(fd, SIOCSIFADDR, boot->address);
	if (r < 0) {
		return r;
	}
	r = set_address(fd, SIOCSIFNETMASK, box_guest_net_mask(boot->prefix));
	if (r < 0) {
		return r;
	}
	r = bring_up(fd, CARD);
	if (r < 0 || !boot->gateway) {
		return r;
	}
	return add_gateway(fd, boot->gateway);
}
