// An old client in Go: sarama, told to speak to brokers of the age that its first argument names. The other arguments
// and what it prints are as client.py beside this folder says.
//
// Which API a program of that age reads with: before 0.10.2 sarama knows no consumer groups, and an OffsetManager keeps
// the group's offsets beside a reader of one partition; from 0.10.2 on a ConsumerGroup does both.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const (
	partition = 0
	patience  = 50 * time.Second
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
}

type record struct {
	Offset    int64   `json:"offset"`
	Key       *string `json:"key"`
	Value     *string `json:"value"`
	Timestamp *int64  `json:"timestamp"`
}

func main() {
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags)
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 7 {
		return fmt.Errorf("seven arguments are expected, not %d", len(arguments))
	}
	version, err := sarama.ParseKafkaVersion(arguments[0])
	if err != nil {
		return err
	}
	config := sarama.NewConfig()
	config.ClientID = "old-sarama"
	config.Version = version
	// Brokers of before do not know the question, and close the connection.
	config.ApiVersionsRequest = version.IsAtLeast(sarama.V0_10_0_0)
	servers, topic := strings.Split(arguments[2], ","), arguments[3]
	switch arguments[1] {
	case "produce":
		count, err := strconv.Atoi(arguments[6])
		if err != nil {
			return err
		}
		return produce(config, servers, topic, arguments[4], arguments[5], count)
	case "consume":
		count, err := strconv.Atoi(arguments[5])
		if err != nil {
			return err
		}
		return consume(config, servers, topic, arguments[4], count)
	}
	return fmt.Errorf("neither produce nor consume: %s", arguments[1])
}

func produce(config *sarama.Config, servers []string, topic, codec, prefix string, count int) (err error) {
	compression, known := codecs[codec]
	if !known {
		return fmt.Errorf("no such codec: %s", codec)
	}
	config.Producer.Compression = compression
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	// Several to a message set, so that there is something to compress and to number.
	config.Producer.Flush.Messages = 7
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	producer, err := sarama.NewSyncProducer(servers, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, producer.Close()) }()
	messages := make([]*sarama.ProducerMessage, count)
	for i := range messages {
		messages[i] = &sarama.ProducerMessage{
			Topic:     topic,
			Partition: partition,
			Key:       sarama.StringEncoder(fmt.Sprintf("%s-key-%d", prefix, i)),
			Value:     sarama.StringEncoder(fmt.Sprintf("%s-value-%d-%s", prefix, i, strings.Repeat("x", 200))),
		}
	}
	if err := producer.SendMessages(messages); err != nil {
		return err
	}
	offsets := make([]int64, count)
	for i, message := range messages {
		offsets[i] = message.Offset
	}
	return print(map[string][]int64{"offsets": offsets})
}

func consume(config *sarama.Config, servers []string, topic, group string, count int) error {
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if config.Version.IsAtLeast(sarama.V0_10_2_0) {
		return consumeAsMember(ctx, config, servers, topic, group, count)
	}
	return consumeAlone(ctx, config, servers, topic, group, count)
}

func consumeAlone(
	ctx context.Context, config *sarama.Config, servers []string, topic, group string, count int,
) (err error) {
	client, err := sarama.NewClient(servers, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	offsets, err := sarama.NewOffsetManagerFromClient(group, client)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, offsets.Close()) }()
	managed, err := offsets.ManagePartition(topic, partition)
	if err != nil {
		return err
	}
	// Closed with the OffsetManager: alone it would wait for the next commit, which nobody makes.
	defer managed.AsyncClose()
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, consumer.Close()) }()
	from, _ := managed.NextOffset()
	reader, err := consumer.ConsumePartition(topic, partition, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	for seen := 0; seen < count; {
		select {
		case message := <-reader.Messages():
			if err := printRecord(message); err != nil {
				return err
			}
			seen++
			managed.MarkOffset(message.Offset+1, "")
		case failure := <-reader.Errors():
			return failure
		case failure := <-managed.Errors():
			return failure
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	offsets.Commit()
	select {
	case failure := <-managed.Errors():
		return failure
	default:
		return nil
	}
}

func consumeAsMember(
	ctx context.Context, config *sarama.Config, servers []string, topic, group string, count int,
) (err error) {
	member, err := sarama.NewConsumerGroup(servers, group, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, member.Close()) }()
	ctx, done := context.WithCancelCause(ctx)
	defer done(nil)
	go func() {
		for failure := range member.Errors() {
			done(failure)
		}
	}()
	reading := &handler{left: count}
	for reading.left > 0 && ctx.Err() == nil {
		if err := member.Consume(ctx, []string{topic}, reading); err != nil {
			return err
		}
	}
	if reading.left > 0 {
		return errors.Join(context.Cause(ctx), reading.failure)
	}
	return reading.failure
}

// handler ends its session when it has as many as are wanted: that is the only partition there is.
type handler struct {
	left    int
	failure error
}

func (*handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (reading *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for reading.left > 0 {
		select {
		case message := <-claim.Messages():
			if message == nil {
				return nil
			}
			if reading.failure = printRecord(message); reading.failure != nil {
				return reading.failure
			}
			session.MarkMessage(message, "")
			reading.left--
		case <-session.Context().Done():
			return nil
		}
	}
	session.Commit()
	return nil
}

func printRecord(message *sarama.ConsumerMessage) error {
	told := record{Offset: message.Offset, Key: text(message.Key), Value: text(message.Value)}
	if !message.Timestamp.IsZero() {
		at := message.Timestamp.UnixMilli()
		told.Timestamp = &at
	}
	return print(told)
}

func text(bytes []byte) *string {
	if bytes == nil {
		return nil
	}
	told := string(bytes)
	return &told
}

func print(told any) error {
	return json.NewEncoder(os.Stdout).Encode(told)
}
