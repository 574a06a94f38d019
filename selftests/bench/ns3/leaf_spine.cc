// SPDX-License-Identifier: MIT OR Apache-2.0

// Flows of a trace over a leaf-spine fabric in ns-3: TCP over drop-tail queues, each flow by one way (ECMP).
//
// usage: leaf_spine --flows=FILE --results=FILE [--leaves=9 --spines=4 --hosts=16 --tcp=TcpCubic …]
//
// FILE has lines `START_NS SRC DST SIZE`, as `weft run --trace` takes them. Written are a line `FLOW FCT_NS` for each
// flow that ended (as weft has it: from when its connection was there to when its last byte was), and to standard
// output a line of JSON.

#include <sys/resource.h>

#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <vector>

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

// Ways to addresses; where there are several, a flow's ports and addresses choose. ns-3's own global routing chooses
// anew for each packet, or always the first.
class Ways : public Ipv4RoutingProtocol
{
  public:
    explicit Ways(uint32_t seed) : m_seed(seed) {}

    // An interface by which everything goes that has no way of its own; several: by flow.
    void AddDefault(uint32_t interface) { m_default.push_back(RouteBy(interface)); }

    void AddHost(Ipv4Address address, uint32_t interface) { m_hosts[address.Get()] = RouteBy(interface); }

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header&, Ptr<NetDevice>, Socket::SocketErrno& error) override
    {
        error = Socket::ERROR_NOTERROR;
        return m_default.at(0);
    }

    bool RouteInput(Ptr<const Packet> packet, const Ipv4Header& header, Ptr<const NetDevice> device,
                    UnicastForwardCallback forward, MulticastForwardCallback, LocalDeliverCallback deliver,
                    ErrorCallback) override
    {
        const uint32_t interface = m_ipv4->GetInterfaceForDevice(device);
        if (m_ipv4->IsDestinationAddress(header.GetDestination(), interface))
        {
            deliver(packet, header, interface);
            return true;
        }
        const auto host = m_hosts.find(header.GetDestination().Get());
        forward(host != m_hosts.end() ? host->second : m_default[Choose(packet, header)], packet, header);
        return true;
    }

    void SetIpv4(Ptr<Ipv4> ipv4) override { m_ipv4 = ipv4; }
    void NotifyInterfaceUp(uint32_t) override {}
    void NotifyInterfaceDown(uint32_t) override {}
    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override {}

  private:
    Ptr<Ipv4Route> RouteBy(uint32_t interface)
    {
        auto route = Create<Ipv4Route>();
        route->SetSource(m_ipv4->GetAddress(interface, 0).GetLocal());
        route->SetOutputDevice(m_ipv4->GetNetDevice(interface));
        // Any: a link has but one other end.
        route->SetGateway(Ipv4Address("127.0.0.1"));
        return route;
    }

    size_t Choose(Ptr<const Packet> packet, const Ipv4Header& header) const
    {
        // The first four bytes behind the header: the ports.
        uint8_t ports[4] = {};
        packet->CopyData(ports, sizeof ports);
        uint64_t hash = m_seed;
        auto mix = [&hash](uint64_t value) {
            hash = (hash ^ value) * 0x9e3779b97f4a7c15;
            hash ^= hash >> 29;
        };
        mix(header.GetSource().Get());
        mix(header.GetDestination().Get());
        mix(uint64_t(ports[0]) << 24 | ports[1] << 16 | ports[2] << 8 | ports[3]);
        return (hash >> 32) % m_default.size();
    }

    uint32_t m_seed;
    Ptr<Ipv4> m_ipv4;
    std::vector<Ptr<Ipv4Route>> m_default;
    std::map<uint32_t, Ptr<Ipv4Route>> m_hosts;
};

struct Flow
{
    uint64_t start;
    uint32_t src;
    uint32_t dst;
    uint64_t size;
    int64_t connected = 0;
    uint64_t sent = 0;
    uint64_t received = 0;
    Ptr<Socket> socket;
};

constexpr uint16_t PORT = 5201;
// Flows' own ports, as the flow's number says: no two flows of a pair of hosts at a time have the same.
constexpr uint16_t FIRST_PORT = 10000;
constexpr uint32_t PORTS = 50000;

std::vector<Flow> flows;
std::ofstream results;
uint64_t ended = 0;
uint64_t transmitted = 0;
std::map<uint32_t, uint32_t> host_of;

void Fill(Ptr<Socket> socket, uint32_t id)
{
    Flow& flow = flows[id];
    while (flow.sent < flow.size)
    {
        const uint64_t room = std::min<uint64_t>(socket->GetTxAvailable(), flow.size - flow.sent);
        // As large as a segment: ns-3 puts segments together from packets.
        const uint32_t length = std::min<uint64_t>(room, 1448);
        if (length == 0 || (length < 1448 && length < flow.size - flow.sent))
        {
            return;
        }
        if (socket->Send(Create<Packet>(length)) < 0)
        {
            return;
        }
        flow.sent += length;
    }
    socket->SetSendCallback(MakeNullCallback<void, Ptr<Socket>, uint32_t>());
    socket->Close();
}

void Begin(Ptr<Node> from, Ipv4Address to, uint32_t id)
{
    auto socket = Socket::CreateSocket(from, TcpSocketFactory::GetTypeId());
    flows[id].socket = socket;
    socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), FIRST_PORT + id % PORTS));
    auto connected = [id](Ptr<Socket> it) {
        flows[id].connected = Simulator::Now().GetNanoSeconds();
        Fill(it, id);
    };
    socket->SetConnectCallback(Callback<void, Ptr<Socket>>(connected), MakeNullCallback<void, Ptr<Socket>>());
    auto writable = [id](Ptr<Socket> it, uint32_t) { Fill(it, id); };
    socket->SetSendCallback(Callback<void, Ptr<Socket>, uint32_t>(writable));
    socket->Connect(InetSocketAddress(to, PORT));
}

void Receive(Ptr<Socket> socket, uint32_t id)
{
    Flow& flow = flows[id];
    while (Ptr<Packet> packet = socket->Recv())
    {
        if (packet->GetSize() == 0)
        {
            break;
        }
        flow.received += packet->GetSize();
    }
    if (flow.received == flow.size && flow.socket)
    {
        flow.socket = nullptr;
        results << id << ' ' << Simulator::Now().GetNanoSeconds() - flow.connected << '\n';
        if (++ended == flows.size())
        {
            Simulator::Stop();
        }
    }
}

void Accept(std::map<std::pair<uint32_t, uint16_t>, std::vector<uint32_t>>* by_sender, Ptr<Socket> socket,
            const Address& from)
{
    const auto peer = InetSocketAddress::ConvertFrom(from);
    const auto source = host_of[peer.GetIpv4().Get()];
    for (uint32_t id : (*by_sender)[{source, peer.GetPort()}])
    {
        if (flows[id].socket && flows[id].received == 0)
        {
            socket->SetRecvCallback(Callback<void, Ptr<Socket>>([id](Ptr<Socket> it) { Receive(it, id); }));
            return;
        }
    }
}

int main(int argc, char** argv)
{
    uint32_t leaves = 9, spines = 4, hosts = 16, buffer = 150, first_window = 12;
    std::string flows_file, results_file, tcp = "TcpCubic";
    std::string host_rate = "10Gbps", fabric_rate = "40Gbps", host_delay = "2700ns", fabric_delay = "200ns";
    CommandLine line;
    line.AddValue("flows", "lines START_NS SRC DST SIZE", flows_file);
    line.AddValue("results", "where lines FLOW FCT_NS go", results_file);
    line.AddValue("leaves", "leaf switches", leaves);
    line.AddValue("spines", "spine switches", spines);
    line.AddValue("hosts", "hosts of a leaf", hosts);
    line.AddValue("tcp", "ns-3's TCP", tcp);
    line.AddValue("buffer", "packets in a switch's port", buffer);
    line.AddValue("first-window", "segments", first_window);
    line.AddValue("host-rate", "of hosts' links", host_rate);
    line.AddValue("fabric-rate", "of leaf-spine links", fabric_rate);
    line.AddValue("host-delay", "of hosts' links", host_delay);
    line.AddValue("fabric-delay", "of leaf-spine links", fabric_delay);
    line.Parse(argc, argv);

    // As weft's scheme droptail has it; see README.md for what differs.
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + tcp)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(first_window));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(MicroSeconds(1000)));
    Config::SetDefault("ns3::TcpSocket::ConnCount", UintegerValue(20));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MicroSeconds(200)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(4)));
    Config::SetDefault("ns3::RttEstimator::InitialEstimation", TimeValue(MicroSeconds(1000)));

    uint64_t start;
    Flow flow{};
    std::ifstream input(flows_file);
    for (std::string text; std::getline(input, text);)
    {
        std::istringstream words(text.substr(0, text.find('#')));
        if (words >> start >> flow.src >> flow.dst >> flow.size)
        {
            flow.start = start;
            flows.push_back(flow);
        }
    }
    results.open(results_file);
    if (flows.empty() || !results)
    {
        std::cerr << "leaf_spine: no flows, or no place for results\n";
        return 2;
    }

    const uint32_t host_count = leaves * hosts;
    NodeContainer nodes;
    nodes.Create(host_count + leaves + spines);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.Install(nodes);
    std::vector<Ptr<Ways>> ways;
    for (uint32_t node = 0; node < nodes.GetN(); node++)
    {
        ways.push_back(CreateObject<Ways>(node + 1));
        nodes.Get(node)->GetObject<Ipv4>()->SetRoutingProtocol(ways[node]);
    }
    auto host_address = [](uint32_t host) { return Ipv4Address(0x0a000001 + (host << 8)); };
    uint32_t links = 0;
    // Interfaces at either end. Addresses are given by hand: ns-3's helper would put a queueing discipline before
    // the device's queue.
    auto link = [&](uint32_t a, uint32_t b, const std::string& rate, const std::string& delay, uint32_t queue_a) {
        PointToPointHelper wire;
        wire.SetDeviceAttribute("DataRate", StringValue(rate));
        wire.SetDeviceAttribute("Mtu", UintegerValue(1500));
        wire.SetChannelAttribute("Delay", StringValue(delay));
        auto devices = wire.Install(nodes.Get(a), nodes.Get(b));
        std::vector<uint32_t> interfaces;
        for (uint32_t end = 0; end < 2; end++)
        {
            const uint32_t node = end == 0 ? a : b;
            auto queue = CreateObject<DropTailQueue<Packet>>();
            queue->SetMaxSize(QueueSize(PACKETS, end == 0 ? queue_a : buffer));
            auto device = DynamicCast<PointToPointNetDevice>(devices.Get(end));
            device->SetQueue(queue);
            device->TraceConnectWithoutContext("PhyTxEnd",
                                               Callback<void, Ptr<const Packet>>([](Ptr<const Packet>) { transmitted++; }));
            auto ipv4 = nodes.Get(node)->GetObject<Ipv4>();
            const uint32_t interface = ipv4->AddInterface(device);
            const auto own = node < host_count ? host_address(node) : Ipv4Address(0xac100001 + (links++ << 2));
            ipv4->AddAddress(interface, Ipv4InterfaceAddress(own, Ipv4Mask("255.255.255.255")));
            ipv4->SetUp(interface);
            interfaces.push_back(interface);
        }
        return interfaces;
    };
    for (uint32_t host = 0; host < host_count; host++)
    {
        const uint32_t leaf = host_count + host / hosts;
        const auto interfaces = link(host, leaf, host_rate, host_delay, 1000);
        ways[host]->AddDefault(interfaces[0]);
        ways[leaf]->AddHost(host_address(host), interfaces[1]);
        host_of[host_address(host).Get()] = host;
    }
    for (uint32_t leaf = 0; leaf < leaves; leaf++)
    {
        for (uint32_t spine = 0; spine < spines; spine++)
        {
            const uint32_t up = host_count + leaf, down = host_count + leaves + spine;
            const auto interfaces = link(up, down, fabric_rate, fabric_delay, buffer);
            ways[up]->AddDefault(interfaces[0]);
            for (uint32_t host = leaf * hosts; host < (leaf + 1) * hosts; host++)
            {
                ways[down]->AddHost(host_address(host), interfaces[1]);
            }
        }
    }

    std::vector<std::map<std::pair<uint32_t, uint16_t>, std::vector<uint32_t>>> by_sender(host_count);
    for (uint32_t id = 0; id < flows.size(); id++)
    {
        const Flow& it = flows[id];
        by_sender.at(it.dst)[{it.src, FIRST_PORT + id % PORTS}].push_back(id);
        Simulator::Schedule(NanoSeconds(it.start), [id, from = nodes.Get(it.src), to = host_address(it.dst)] {
            Begin(from, to, id);
        });
    }
    for (uint32_t host = 0; host < host_count; host++)
    {
        auto socket = Socket::CreateSocket(nodes.Get(host), TcpSocketFactory::GetTypeId());
        socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
        socket->Listen();
        auto* senders = &by_sender[host];
        socket->SetAcceptCallback(
            MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
            Callback<void, Ptr<Socket>, const Address&>(
                [senders](Ptr<Socket> it, const Address& from) { Accept(senders, it, from); }));
    }
    // Whatever is wrong: not for ever.
    Simulator::Stop(NanoSeconds(flows.back().start) + Seconds(5));
    Simulator::Run();

    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    auto seconds = [](timeval time) { return time.tv_sec + time.tv_usec / 1e6; };
    std::cout << "{\"flows\":" << flows.size() << ",\"ended\":" << ended << ",\"packet_hops\":" << transmitted
              << ",\"events\":" << Simulator::GetEventCount()
              << ",\"processor_seconds\":" << seconds(usage.ru_utime) + seconds(usage.ru_stime)
              << ",\"peak_kib\":" << usage.ru_maxrss << "}\n";
    return 0;
}
