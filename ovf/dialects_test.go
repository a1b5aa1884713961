package ovf

import "strings"

// The descriptors of this file are in the style of the programs that their names tell. All are written for these tests.

const vmware = `<?xml version="1.0" encoding="UTF-8"?>
<!--Generated in the style of VMware-->
<Envelope vmw:buildId="build-1" xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:cim="http://schemas.dmtf.org/wbem/wscim/1/common" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1" xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData" xmlns:vmw="http://www.vmware.com/schema/ovf" xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <References><File ovf:href="tide-disk1.vmdk" ovf:id="file1" ovf:size="-1"/><File ovf:href="tools.iso" ovf:id="file2"/></References>
  <DiskSection><Info>Disks</Info>
    <Disk ovf:capacity="20" ovf:capacityAllocationUnits="byte * 2^30" ovf:diskId="vmdisk1" ovf:fileRef="file1" ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/>
    <Disk ovf:capacity="5" ovf:capacityAllocationUnits="byte * 2^30" ovf:diskId="vmdisk2" ovf:fileRef="" ovf:parentRef=""/>
  </DiskSection>
  <NetworkSection><Info>Networks</Info><Network ovf:name="Shore"><Description>Towards the town</Description></Network></NetworkSection>
  <VirtualSystem ovf:id="tide"><Info>A machine</Info><Name>Tide Table</Name>
    <OperatingSystemSection ovf:id="101" vmw:osType="ubuntu64Guest"><Info>OS</Info><Description>Ubuntu Linux (64-bit)</Description></OperatingSystemSection>
    <VirtualHardwareSection><Info>Hardware</Info>
      <System><vssd:ElementName>Virtual Hardware Family</vssd:ElementName><vssd:InstanceID>0</vssd:InstanceID><vssd:VirtualSystemType>vmx-13</vssd:VirtualSystemType></System>
      <Item><rasd:AllocationUnits>hertz * 10^6</rasd:AllocationUnits><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>4</rasd:VirtualQuantity><vmw:CoresPerSocket ovf:required="false">2</vmw:CoresPerSocket></Item>
      <Item><rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>2048</rasd:VirtualQuantity></Item>
      <Item><rasd:Address>0</rasd:Address><rasd:InstanceID>3</rasd:InstanceID><rasd:ResourceSubType>VirtualSCSI</rasd:ResourceSubType><rasd:ResourceType>6</rasd:ResourceType></Item>
      <Item><rasd:Address>1</rasd:Address><rasd:InstanceID>4</rasd:InstanceID><rasd:ResourceType>5</rasd:ResourceType></Item>
      <Item><rasd:AddressOnParent>1</rasd:AddressOnParent><rasd:HostResource>ovf:/disk/vmdisk2</rasd:HostResource><rasd:InstanceID>5</rasd:InstanceID><rasd:Parent>3</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>
      <Item><rasd:AddressOnParent>0</rasd:AddressOnParent><rasd:HostResource>ovf:/disk/vmdisk1</rasd:HostResource><rasd:InstanceID>6</rasd:InstanceID><rasd:Parent>3</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>
      <Item ovf:required="false"><rasd:AddressOnParent>0</rasd:AddressOnParent><rasd:HostResource>ovf:/file/file2</rasd:HostResource><rasd:InstanceID>7</rasd:InstanceID><rasd:Parent>4</rasd:Parent><rasd:ResourceSubType>vmware.cdrom.iso</rasd:ResourceSubType><rasd:ResourceType>15</rasd:ResourceType></Item>
      <Item><rasd:Address>00:50:56:00:00:07</rasd:Address><rasd:AddressOnParent>7</rasd:AddressOnParent><rasd:Connection>Shore</rasd:Connection><rasd:InstanceID>8</rasd:InstanceID><rasd:ResourceSubType>VmxNet3</rasd:ResourceSubType><rasd:ResourceType>10</rasd:ResourceType></Item>
      <Item ovf:required="false"><rasd:ElementName>Port A</rasd:ElementName><rasd:InstanceID>9</rasd:InstanceID><rasd:ResourceType>21</rasd:ResourceType></Item>
      <Item ovf:required="false"><rasd:InstanceID>10</rasd:InstanceID><rasd:ResourceSubType>vmware.vmci</rasd:ResourceSubType><rasd:ResourceType>1</rasd:ResourceType></Item>
      <vmw:Config ovf:required="false" vmw:key="cpuHotAddEnabled" vmw:value="false"/>
    </VirtualHardwareSection>
  </VirtualSystem>
</Envelope>`

const virtualBox = `<?xml version="1.0"?>
<Envelope ovf:version="1.0" xml:lang="en-US" xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1" xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData" xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData" xmlns:vbox="http://www.virtualbox.org/ovf/machine">
  <References><File ovf:id="file1" ovf:href="kiln disk ü.vmdk"/><File ovf:id="file2" ovf:href="kiln.iso"/></References>
  <DiskSection><Info>x</Info>
    <Disk ovf:capacity="8589934592" ovf:diskId="d1" ovf:fileRef="file1" ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized" vbox:uuid="1"/>
    <Disk ovf:capacity="1" ovf:diskId="iso1" ovf:fileRef="file2" ovf:format="http://www.ecma-international.org/publications/standards/Ecma-119.htm"/>
  </DiskSection>
  <NetworkSection><Info>x</Info><Network ovf:name="NAT"><Description>x</Description></Network></NetworkSection>
  <VirtualSystem ovf:id="kiln"><Info>x</Info>
    <OperatingSystemSection ovf:id="96"><Info>x</Info><Description>Debian_64</Description><vbox:OSType ovf:required="false">Debian_64</vbox:OSType></OperatingSystemSection>
    <VirtualHardwareSection><Info>x</Info>
      <System><vssd:VirtualSystemType>virtualbox-2.2</vssd:VirtualSystemType></System>
      <Item><rasd:Caption>2 virtual CPU</rasd:Caption><rasd:InstanceId>1</rasd:InstanceId><rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>2</rasd:VirtualQuantity></Item>
      <Item><rasd:AllocationUnits>MegaBytes</rasd:AllocationUnits><rasd:InstanceId>2</rasd:InstanceId><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>1024</rasd:VirtualQuantity></Item>
      <Item><rasd:Address>0</rasd:Address><rasd:Caption>ideController0</rasd:Caption><rasd:InstanceId>3</rasd:InstanceId><rasd:ResourceSubType>PIIX4</rasd:ResourceSubType><rasd:ResourceType>5</rasd:ResourceType></Item>
      <Item><rasd:Address>0</rasd:Address><rasd:InstanceId>5</rasd:InstanceId><rasd:ResourceSubType>AHCI</rasd:ResourceSubType><rasd:ResourceType>20</rasd:ResourceType></Item>
      <Item ovf:required="false"><rasd:Caption>usb</rasd:Caption><rasd:InstanceId>6</rasd:InstanceId><rasd:ResourceType>23</rasd:ResourceType></Item>
      <Item ovf:required="false"><rasd:Caption>sound</rasd:Caption><rasd:InstanceId>7</rasd:InstanceId><rasd:ResourceSubType>ensoniq1371</rasd:ResourceSubType><rasd:ResourceType>35</rasd:ResourceType></Item>
      <Item><rasd:AddressOnParent>0</rasd:AddressOnParent><rasd:HostResource>/disk/d1</rasd:HostResource><rasd:InstanceId>8</rasd:InstanceId><rasd:Parent>5</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>
      <Item><rasd:AddressOnParent>1</rasd:AddressOnParent><rasd:HostResource>/disk/iso1</rasd:HostResource><rasd:InstanceId>9</rasd:InstanceId><rasd:Parent>3</rasd:Parent><rasd:ResourceType>15</rasd:ResourceType></Item>
      <Item><rasd:AutomaticAllocation>true</rasd:AutomaticAllocation><rasd:Connection>NAT</rasd:Connection><rasd:InstanceId>10</rasd:InstanceId><rasd:ResourceSubType>E1000</rasd:ResourceSubType><rasd:ResourceType>10</rasd:ResourceType></Item>
    </VirtualHardwareSection>
    <vbox:Machine ovf:required="false" version="1.19-linux" uuid="{1}" name="kiln" OSType="Debian_64"><Hardware><Firmware type="BIOS"/><BIOS/></Hardware></vbox:Machine>
  </VirtualSystem>
</Envelope>`

const oVirt = `<?xml version='1.0' encoding='UTF-8'?>
<ovf:Envelope xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1/" xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData" xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" ovf:version="4.4.0.0">
  <References><File ovf:href="11d0/22v0" ovf:id="22v0" ovf:size="1"/><File ovf:href="11d1/22v1" ovf:id="22v1" ovf:size="1"/></References>
  <NetworkSection><Info>x</Info><Network ovf:name="net"/></NetworkSection>
  <Section xsi:type="ovf:DiskSection_Type"><Info>x</Info>
    <Disk ovf:diskId="22v0" ovf:size="3" ovf:actual_size="1" ovf:parentRef="" ovf:fileRef="11d0/22v0" ovf:format="http://www.vmware.com/specifications/vmdk.html#sparse" ovf:volume-format="RAW" ovf:boot="false"/>
    <Disk ovf:diskId="22v1" ovf:size="10" ovf:actual_size="1" ovf:parentRef="" ovf:fileRef="11d1/22v1" ovf:format="http://www.gnome.org/~markmc/qcow-image-format.html" ovf:volume-format="COW" ovf:boot="true"/>
  </Section>
  <Content ovf:id="out" xsi:type="ovf:VirtualSystem_Type"><Name>quarry</Name><Description>x</Description><BiosType>2</BiosType><IsStateless>false</IsStateless>
    <Section ovf:id="aa" ovf:required="false" xsi:type="ovf:OperatingSystemSection_Type"><Info>x</Info><Description>rhel_8x64</Description></Section>
    <Section xsi:type="ovf:VirtualHardwareSection_Type"><Info>x</Info><System><vssd:VirtualSystemType>ENGINE 4.4.0.0</vssd:VirtualSystemType></System>
      <Item><rasd:Caption>4 virtual cpu</rasd:Caption><rasd:InstanceId>1</rasd:InstanceId><rasd:ResourceType>3</rasd:ResourceType><rasd:num_of_sockets>2</rasd:num_of_sockets><rasd:cpu_per_socket>2</rasd:cpu_per_socket><rasd:threads_per_cpu>1</rasd:threads_per_cpu></Item>
      <Item><rasd:InstanceId>2</rasd:InstanceId><rasd:ResourceType>4</rasd:ResourceType><rasd:AllocationUnits>MegaBytes</rasd:AllocationUnits><rasd:VirtualQuantity>4096</rasd:VirtualQuantity></Item>
      <Item><rasd:InstanceId>22v0</rasd:InstanceId><rasd:ResourceType>17</rasd:ResourceType><rasd:HostResource>11d0/22v0</rasd:HostResource><rasd:Parent>0</rasd:Parent></Item>
      <Item><rasd:InstanceId>22v1</rasd:InstanceId><rasd:ResourceType>17</rasd:ResourceType><rasd:HostResource>11d1/22v1</rasd:HostResource><rasd:Parent>0</rasd:Parent></Item>
      <Item><rasd:InstanceId>n1</rasd:InstanceId><rasd:ResourceType>10</rasd:ResourceType><rasd:ResourceSubType>3</rasd:ResourceSubType><rasd:Connection>net</rasd:Connection><rasd:MACAddress>56:6f:00:00:00:01</rasd:MACAddress></Item>
      <Item><rasd:InstanceId>u1</rasd:InstanceId><rasd:ResourceType>20</rasd:ResourceType><rasd:Caption>Graphical Controller</rasd:Caption></Item>
      <Item><rasd:InstanceId>b1</rasd:InstanceId><rasd:ResourceType>0</rasd:ResourceType><Type>balloon</Type></Item>
    </Section>
  </Content>
</ovf:Envelope>`

// oVirtOVA is in the style of an OVA that oVirt exports: without Content, and with fields beside the sections.
const oVirtOVA = `<?xml version="1.0" encoding="UTF-8"?>
<ovf:Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1/" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1/" xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData" xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:ovirt="http://www.ovirt.org/ovf" ovf:version="4.5.0.0">
  <References><File ovf:href="33v0" ovf:id="33v0" ovf:size="1"/><File ovf:href="33v1" ovf:id="33v1" ovf:size="1"/><File ovf:href="tpm.dat" ovf:id="tpm.dat" ovf:size="1"/><File ovf:href="nvram.dat" ovf:id="nvram.dat" ovf:size="1"/></References>
  <NetworkSection><Info>x</Info><Network ovf:name="net"/></NetworkSection>
  <DiskSection><Info>x</Info>
    <Disk ovf:diskId="33d0" ovf:capacity="3" ovf:capacityAllocationUnits="byte * 2^30" ovf:parentRef="" ovf:fileRef="33v0" ovf:format="http://www.gnome.org/~markmc/qcow-image-format.html" ovf:disk-interface="SATA" ovf:boot="false"/>
    <Disk ovf:diskId="33d1" ovf:capacity="10" ovf:capacityAllocationUnits="byte * 2^30" ovf:parentRef="" ovf:fileRef="33v1" ovf:format="http://www.gnome.org/~markmc/qcow-image-format.html" ovf:disk-interface="VirtIO_SCSI" ovf:boot="true"/>
  </DiskSection>
  <VirtualSystem ovf:id="33a"><Name>cellar</Name><Description>x</Description><Comment/><CreationDate>x</CreationDate><IsStateless>false</IsStateless><TimeZone>Etc/GMT</TimeZone><BiosType>2</BiosType><CustomCpuName/><VmInit ovf:hostname="cellar"/>
    <ProductSection ovf:class="kernel"><Info>x</Info><Product>kernel</Product><Version>1</Version></ProductSection>
    <OperatingSystemSection ovf:id="115" ovirt:id="37" ovf:required="false"><Info>x</Info><Description>Windows 2022</Description></OperatingSystemSection>
    <VirtualHardwareSection><Info>x</Info><System><vssd:VirtualSystemType>ENGINE 4.5.0.0</vssd:VirtualSystemType></System>
      <Item><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>3</rasd:ResourceType><rasd:num_of_sockets>2</rasd:num_of_sockets><rasd:cpu_per_socket>3</rasd:cpu_per_socket><rasd:threads_per_cpu>2</rasd:threads_per_cpu><rasd:max_num_of_vcpus>16</rasd:max_num_of_vcpus><rasd:VirtualQuantity>12</rasd:VirtualQuantity></Item>
      <Item><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:AllocationUnits>MegaBytes</rasd:AllocationUnits><rasd:VirtualQuantity>4096</rasd:VirtualQuantity></Item>
      <Item><rasd:InstanceID>33v0</rasd:InstanceID><rasd:ResourceType>17</rasd:ResourceType><rasd:HostResource>ovf:/disk/33d0</rasd:HostResource><rasd:Parent>0</rasd:Parent><Type>disk</Type></Item>
      <Item><rasd:InstanceID>33v1</rasd:InstanceID><rasd:ResourceType>17</rasd:ResourceType><rasd:HostResource>ovf:/disk/33d1</rasd:HostResource><rasd:Parent>0</rasd:Parent><Type>disk</Type></Item>
      <Item><rasd:InstanceID>n1</rasd:InstanceID><rasd:ResourceType>10</rasd:ResourceType><rasd:OtherResourceType/><rasd:ResourceSubType>6</rasd:ResourceSubType><rasd:Connection>net</rasd:Connection><rasd:MACAddress>56:6f:00:00:00:01</rasd:MACAddress></Item>
      <Item><rasd:Caption>USB Controller</rasd:Caption><rasd:InstanceID>3</rasd:InstanceID><rasd:ResourceType>23</rasd:ResourceType><rasd:UsbPolicy>DISABLED</rasd:UsbPolicy></Item>
      <Item><rasd:InstanceID>v1</rasd:InstanceID><rasd:ResourceType>32768</rasd:ResourceType><Type>video</Type></Item>
      <Item><rasd:InstanceID>t1</rasd:InstanceID><rasd:ResourceType>0</rasd:ResourceType><rasd:HostResource>ovf:/file/tpm.dat</rasd:HostResource><Type>tpm</Type></Item>
      <Item><rasd:InstanceID>s1</rasd:InstanceID><rasd:ResourceType>0</rasd:ResourceType><Type>sound</Type></Item>
    </VirtualHardwareSection>
    <NumaNodeSection><NumaNode><index>0</index></NumaNode></NumaNodeSection>
  </VirtualSystem>
</ovf:Envelope>`

const xenServer = `<?xml version="1.0" encoding="utf-16"?>
<ovf:Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1" xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData" xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData" xmlns:xenovf="http://www.citrix.com/xenclient/ovf/1" ovf:version="1.0.0">
  <ovf:References><ovf:File ovf:id="f1" ovf:href="mill.vhd" ovf:size="0"/></ovf:References>
  <ovf:DiskSection><ovf:Info>x</ovf:Info><ovf:Disk ovf:diskId="x1" ovf:fileRef="f1" ovf:capacity="34359738368" ovf:format="http://www.microsoft.com/technet/virtualserver/downloads/vhdspec.mspx"/></ovf:DiskSection>
  <ovf:NetworkSection><ovf:Info>x</ovf:Info><ovf:Network ovf:name="Network 0"/></ovf:NetworkSection>
  <ovf:VirtualSystem ovf:id="vm1"><ovf:Info>x</ovf:Info><ovf:Name>mill</ovf:Name>
    <ovf:OperatingSystemSection ovf:id="112"><ovf:Info>x</ovf:Info><ovf:Description>Windows Server 2012</ovf:Description></ovf:OperatingSystemSection>
    <ovf:VirtualHardwareSection><ovf:Info>x</ovf:Info><ovf:System><vssd:VirtualSystemType>hvm-3.0-unknown</vssd:VirtualSystemType></ovf:System>
      <ovf:Item><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>2</rasd:VirtualQuantity></ovf:Item>
      <ovf:Item><rasd:AllocationUnits>MB</rasd:AllocationUnits><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>4096</rasd:VirtualQuantity></ovf:Item>
      <ovf:Item><rasd:Connection>Network 0</rasd:Connection><rasd:InstanceID>3</rasd:InstanceID><rasd:ResourceSubType>PV</rasd:ResourceSubType><rasd:ResourceType>10</rasd:ResourceType></ovf:Item>
      <ovf:Item><rasd:AddressOnParent>0</rasd:AddressOnParent><rasd:HostResource>ovf:/disk/x1</rasd:HostResource><rasd:InstanceID>4</rasd:InstanceID><rasd:ResourceType>19</rasd:ResourceType></ovf:Item>
    </ovf:VirtualHardwareSection>
  </ovf:VirtualSystem>
</ovf:Envelope>`

// xenServerUEFI has the settings of XenServer that a guest depends on, each in an element of its own.
var xenServerUEFI = strings.Replace(xenServer, "</ovf:System>", `</ovf:System>
      <xenovf:VirtualSystemOtherConfigurationData ovf:required="false" Name="HVM_boot_policy" id="1"><ovf:Info>x</ovf:Info><xenovf:Value>BIOS order</xenovf:Value></xenovf:VirtualSystemOtherConfigurationData>
      <xenovf:VirtualSystemOtherConfigurationData ovf:required="false" Name="HVM_boot_params" id="2"><ovf:Info>x</ovf:Info><xenovf:Value>order=dc;firmware=uefi;</xenovf:Value></xenovf:VirtualSystemOtherConfigurationData>
      <xenovf:VirtualSystemOtherConfigurationData ovf:required="false" Name="platform" id="3"><ovf:Info>x</ovf:Info><xenovf:Value>nx=true;cores-per-socket=2;secureboot=true;device-model=qemu-upstream-uefi</xenovf:Value></xenovf:VirtualSystemOtherConfigurationData>`, 1)

const powerVC = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<ns0:Envelope xmlns:ns0="http://schemas.dmtf.org/ovf/envelope/1" xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData" xmlns:ns3="ibmpvc">
  <ns0:References><ns0:File href="loom.img" id="file1" size="1"/></ns0:References>
  <ns0:DiskSection><ns0:Info/><ns0:Disk capacity="10" capacityAllocationUnits="byte * 2^30" diskId="disk1" fileRef="file1"/></ns0:DiskSection>
  <ns0:VirtualSystemCollection id="c"><ns0:Info/>
    <ns0:VirtualSystem id="vs0"><ns0:Info/><ns0:Name>loom</ns0:Name>
      <ns0:OperatingSystemSection id="79"><ns0:Info/><ns0:Description>RHEL</ns0:Description><ns3:architecture>ppc64le</ns3:architecture></ns0:OperatingSystemSection>
      <ns0:VirtualHardwareSection><ns0:Info/>
        <ns0:Item><rasd:HostResource>ovf:/disk/disk1</rasd:HostResource><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>17</rasd:ResourceType></ns0:Item>
      </ns0:VirtualHardwareSection>
    </ns0:VirtualSystem>
  </ns0:VirtualSystemCollection>
</ns0:Envelope>`

const version2 = `<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/2" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/2" xmlns:rasd="r" xmlns:sasd="s" xmlns:epasd="e">
  <References><File ovf:id="f" ovf:href="images/root.qcow2"/></References>
  <DiskSection><Disk ovf:diskId="d" ovf:fileRef="f" ovf:capacity="4294967296" ovf:format="http://people.gnome.org/~markmc/qcow-image-format.html"/></DiskSection>
  <NetworkSection><Network ovf:name="a"/></NetworkSection>
  <VirtualSystem ovf:id="v2"><Info/><Name>weir</Name>
    <OperatingSystemSection ovf:id="94" ovf:version="24.04"><Info/><Description>Ubuntu 64-bit</Description></OperatingSystemSection>
    <VirtualHardwareSection><Info/>
      <Item><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>1</rasd:VirtualQuantity></Item>
      <Item><rasd:AllocationUnits>byte*2^30</rasd:AllocationUnits><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>1</rasd:VirtualQuantity></Item>
      <Item><rasd:InstanceID>3</rasd:InstanceID><rasd:ResourceSubType>vmware.nvme.controller</rasd:ResourceSubType><rasd:ResourceType>20</rasd:ResourceType></Item>
      <StorageItem><sasd:HostResource>ovf:/disk/d</sasd:HostResource><sasd:InstanceID>4</sasd:InstanceID><sasd:Parent>3</sasd:Parent><sasd:ResourceType>17</sasd:ResourceType></StorageItem>
      <EthernetPortItem><epasd:Address>00:16:3e:00:00:01</epasd:Address><epasd:Connection>a</epasd:Connection><epasd:InstanceID>5</epasd:InstanceID><epasd:ResourceSubType>vmxnet3, E1000</epasd:ResourceSubType><epasd:ResourceType>10</epasd:ResourceType></EthernetPortItem>
    </VirtualHardwareSection>
  </VirtualSystem>
</Envelope>`

const version09 = `<?xml version="1.0" encoding="ISO-8859-1"?>
<ovf:Envelope xmlns:ovf="http://www.vmware.com/schema/ovf/1/envelope" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:rasd="r" ovf:version="0.9">
  <References><File ovf:id="file1" ovf:href="old.vmdk"/></References>
  <Section xsi:type="ovf:DiskSection_Type"><Info>x</Info><Disk ovf:diskId="disk1" ovf:fileRef="file1" ovf:capacity="1073741824"/></Section>
  <Section xsi:type="ovf:NetworkSection_Type"><Info>x</Info><Network ovf:name="bridged"/></Section>
  <Content xsi:type="ovf:VirtualSystem_Type" ovf:id="Old"><Info>x</Info>
    <Section xsi:type="ovf:ProductSection_Type"><Info>x</Info><Product>Old One</Product><Vendor>Example</Vendor></Section>
    <Section xsi:type="ovf:OperatingSystemSection_Type" ovf:id="36"><Info>x</Info><Description>Linux</Description></Section>
    <Section xsi:type="ovf:VirtualHardwareSection_Type"><Info>x</Info>
      <Item><rasd:InstanceId>1</rasd:InstanceId><rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>1</rasd:VirtualQuantity></Item>
      <Item><rasd:AllocationUnits>MegaBytes</rasd:AllocationUnits><rasd:InstanceId>2</rasd:InstanceId><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>256</rasd:VirtualQuantity></Item>
      <Item><rasd:InstanceId>3</rasd:InstanceId><rasd:ResourceSubType>lsilogic</rasd:ResourceSubType><rasd:ResourceType>6</rasd:ResourceType></Item>
      <Item><rasd:HostResource>disk/disk1</rasd:HostResource><rasd:InstanceId>4</rasd:InstanceId><rasd:Parent>3</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>
      <Item><rasd:Connection>bridged</rasd:Connection><rasd:InstanceId>5</rasd:InstanceId><rasd:ResourceSubType>PCNet32</rasd:ResourceSubType><rasd:ResourceType>10</rasd:ResourceType></Item>
    </Section>
  </Content>
</ovf:Envelope>`

// virtualCenter has the sections of OVF 0.9 in the namespace of OVF 1, as VirtualCenter 2.5 wrote them.
var virtualCenter = strings.NewReplacer(
	`xmlns:ovf="http://www.vmware.com/schema/ovf/1/envelope"`, `xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1" xmlns:vmwovf="http://www.vmware.com/schema/ovf"`,
	`ovf:version="0.9"`, `ovf:version="1.0"`,
	">disk/disk1<", ">ovf://disk/disk1<",
).Replace(version09)
