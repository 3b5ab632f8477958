# A stand-in for a VM of Azure: an sshd with its own view of the few files that tell a guest what it is.
# Usage, in namespaces of its own: machine.sh HOME USER ADDRESS NAME PHYSICAL_HOST [vf]; HOME has host_key and authorized.
set -e
home=$1 user=$2 address=$3 name=$4 physical=$5 vf=$6
mount --make-rprivate /
cd "$home"

# in Azure the user becomes root without a password; here it is root by another name
(cat /etc/passwd; echo "$user:x:0:0::/tmp:/bin/sh") >passwd
(cat /etc/shadow; echo "$user:*:19000:0:99999:7:::") >shadow
mount --bind passwd /etc/passwd
mount --bind shadow /etc/shadow

driver() {
  mkdir -p "net/.drivers/$2" "net/$1/device"
  ln -s "../../.drivers/$2" "net/$1/device/driver"
  echo up >"net/$1/operstate"
}
driver eth0 hv_netvsc
counter=true
if [ "$vf" ]; then
  driver enP30832s1 mlx5_core
  # packets that are sent are counted as those of the virtual function
  counter="awk '/lo:/ {n += \$11} END {print \"     vf_tx_packets: \" n}' /proc/net/dev"
fi
printf '#!/bin/sh\n[ "$1" != -S ] || %s\n' "$counter" >ethtool
chmod 755 ethtool

padded() { printf '%s' "$2" | dd bs="$1" conv=sync status=none; }
# an overlay does not go on top of another one, such as a container's; the user may read what is in it
mkdir work
mount -t tmpfs none work
mkdir -p work/upper/hyperv work/work
cp authorized work/upper/hyperv
for pair in HostName=AMS "PhysicalHostName=$physical"; do
  padded 512 "${pair%%=*}"
  padded 2048 "${pair#*=}"
done >work/upper/hyperv/.kvp_pool_3
cat >sshd_config <<END
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
PidFile none
UseDNS no
MaxStartups 100
AuthorizedKeysFile /var/lib/hyperv/authorized
ListenAddress $address:22
HostKey $home/host_key
END
mount -t overlay none -o lowerdir=/var/lib,upperdir=work/upper,workdir=work/work /var/lib
mount --bind net /sys/class/net
mount -t tmpfs none /usr/local/sbin
cp ethtool /usr/local/sbin/ethtool
mkdir -p /run/sshd
hostname "$name"
exec /usr/sbin/sshd -D -e -f "$home/sshd_config"
